#include <fmt/format.h>

#include <algorithm>

#include "config_values.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/familiar_options.hpp"
#include "tutti/base/lower_case.hpp"
#include "tutti/base/suggest.hpp"

namespace tutti {
namespace {

using Form = FamiliarOption::Form;
using Meaning = FamiliarOption::Meaning;
using Value = FamiliarOption::Value;

constexpr const char* asked_from = "command line";

template <class Fits>
const FamiliarOption* find(const Fits& fits) {
    const auto& table = familiar_options();
    const auto found = std::find_if(table.begin(), table.end(), fits);
    return found == table.end() ? nullptr : &*found;
}

}  // namespace

const FamiliarOption* find_familiar_flag(std::string_view name, std::string_view command) {
    const auto in_command = [&](const FamiliarOption& option) {
        return option.form == Form::flag && (option.command.empty() || option.command == command);
    };
    const FamiliarOption* const exact =
        find([&](const FamiliarOption& option) { return in_command(option) && option.name == name; });
    return exact ? exact : find([&](const FamiliarOption& option) {
        return in_command(option) && same_but_for_spelling(option.name, name);
    });
}

const FamiliarOption* find_familiar_key(std::string_view path) {
    return find(
        [&](const FamiliarOption& option) { return option.form == Form::yaml && option.name == path; });
}

bool is_familiar_section(std::string_view path) {
    const std::string begin = std::string(path) + ".";
    return find([&](const FamiliarOption& option) {
               return option.form == Form::yaml && option.name.starts_with(begin);
           }) != nullptr;
}

std::string familiar_value(const FamiliarOption& option, const std::string& value, const std::string& where) {
    // YAML has several words for a truth value.
    std::string word = lower_case(value);
    if (word == "yes" || word == "on") word = "true";
    if (word == "no" || word == "off") word = "false";
    for (const auto& [theirs, ours] : option.words)
        if (value == theirs || word == theirs) return ours;
    switch (option.value) {
        case Value::hdf5:
            if (value.ends_with(".csv") || value.ends_with(".json"))
                throw UsageError(fmt::format("{}: {}: {} is a list of files, but samples are read from HDF5",
                                             where, option.name, value),
                                 "pack them once (data/README.md), and name the HDF5 file there");
            return value;
        case Value::lower_case:
            return lower_case(value);
        case Value::epochs:
            return value + " epochs";
        case Value::as_given:
        case Value::switch_on:
            break;
    }
    return value;
}

void refuse_familiar(const FamiliarOption& option, const std::string& given, const std::string& where) {
    throw UsageError(fmt::format("{}: {} ({}) is not taken over", where, given, option.from), option.note);
}

std::vector<std::string> translate_familiar_flags(std::span<const std::string> arguments,
                                                  std::string_view command) {
    std::vector<std::string> result;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string& word = arguments[i];
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        const FamiliarOption* const option =
            word.starts_with("--") ? find_familiar_flag(name, command) : nullptr;
        if (!option) {
            result.push_back(word);
            continue;
        }
        if (option->meaning == Meaning::refused) refuse_familiar(*option, name, asked_from);
        if (option->value == Value::switch_on) {
            if (equals != std::string::npos)
                throw UsageError(fmt::format("{}: {} takes no value", asked_from, name), "write it alone");
            if (option->meaning == Meaning::setting) result.push_back(option->target + "=" + option->fixed);
            if (option->meaning == Meaning::option) result.push_back(option->target);
            continue;
        }
        const bool separate = equals == std::string::npos;
        if (separate && (i + 1 == arguments.size() || arguments[i + 1].starts_with("--")))
            throw UsageError(fmt::format("{}: {} needs a value", asked_from, name),
                             fmt::format("write {} VALUE", name));
        const std::string value =
            familiar_value(*option, separate ? arguments[++i] : word.substr(equals + 1), asked_from);
        if (option->meaning == Meaning::setting) result.push_back(option->target + "=" + value);
        if (option->meaning == Meaning::option) {
            result.push_back(option->target);
            result.push_back(value);
        }
    }
    return result;
}

}  // namespace tutti
