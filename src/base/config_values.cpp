#include "config_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <system_error>

#include "tutti/base/error.hpp"
#include "tutti/base/expanded_path.hpp"
#include "tutti/base/lower_case.hpp"
#include "tutti/base/matching_files.hpp"
#include "tutti/base/suggest.hpp"

namespace tutti::config {
namespace {

/// The whole of `text` as a number, or the error. std::from_chars knows no locale, and no plus, which YAML
/// has (1.2.2, 10.3.2).
template <class T>
std::errc read(std::string_view text, T& number) {
    if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
    const char* const end = text.data() + text.size();
    const auto [rest, status] = std::from_chars(text.data(), end, number);
    if (status != std::errc() && status != std::errc::result_out_of_range) return status;
    return rest == end ? status : std::errc::invalid_argument;
}

std::string describe(Range range) {
    const bool below = std::isfinite(range.low), above = std::isfinite(range.high);
    std::string text = "a finite number";
    if (below) text = fmt::format("a number {} {}", range.low_open ? "above" : "of at least", range.low);
    if (above)
        text += fmt::format("{} {} {}", below ? " and" : "", range.high_open ? "below" : "up to", range.high);
    return text;
}

bool inside(Range range, double value) {
    return std::isfinite(value) && (range.low_open ? value > range.low : value >= range.low) &&
           (range.high_open ? value < range.high : value <= range.high);
}

/// Words that YAML readers, ours or others, take for something else than text.
bool is_special(std::string_view text) {
    static constexpr std::array words{"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
    return std::find(words.begin(), words.end(), lower_case(text)) != words.end();
}

std::string quote(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            result += '\\';
            result += c;
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            result += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
        } else {
            result += c;
        }
    }
    return result + '"';
}

}  // namespace

std::string quoted_scalar(std::string_view text) {
    const auto is_plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '.' || c == '/' || c == '-' || c == '+';
    };
    const bool plain =
        !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), is_plain);
    double number = 0;
    const bool negative_number = text.size() > 1 && text.front() == '-' && read(text, number) == std::errc();
    return (plain && !is_special(text)) || negative_number ? std::string(text) : quote(text);
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
    std::string result;
    for (const std::string& word : words) {
        if (!result.empty()) result += separator;
        result += word;
    }
    return result;
}

std::string Setting::shown() const {
    if (node.IsNull()) return "null";
    if (node.IsMap()) return "a map";
    if (node.IsSequence()) return "a list";
    static constexpr std::size_t longest = 60;
    const std::string& value = node.Scalar();
    const bool one_line = std::none_of(value.begin(), value.end(), [](char c) { return c >= 0 && c < ' '; });
    if (value.empty() || !one_line) return quote(value.substr(0, longest));
    return value.size() <= longest ? value : value.substr(0, longest) + "…";
}

void Setting::fail(const std::string& problem, const std::string& remedy) const {
    throw UsageError(fmt::format("{}: {}: {}", where, path, problem), remedy);
}

void Setting::wrong(const std::string& expected, const std::string& remedy) const {
    fail(fmt::format("{} is not {}", shown(), expected), remedy);
}

void Setting::no_key(const std::string& key, const std::vector<std::string>& keys,
                     const std::string& remedy) const {
    const std::string near = nearest(key, keys);
    fail(key + " is not a key of it", near.empty() ? remedy : "did you mean " + near + "?");
}

std::string Setting::scalar(const std::string& expected) const {
    if (!node.IsScalar()) wrong(expected);
    return node.Scalar();
}

namespace {

/// "val/accuracy" of "/accuracy", where no other of `words` ends so.
std::string only_ending_in(const std::string& end, const std::vector<std::string>& words) {
    const auto ends_so = [&](const std::string& word) { return word.ends_with(end); };
    return std::ranges::count_if(words, ends_so) == 1 ? *std::ranges::find_if(words, ends_so) : std::string();
}

}  // namespace

std::size_t choose(const Setting& setting, const std::vector<std::string>& words) {
    const std::string expected = "one of " + join(words, ", ");
    const bool null_allowed = std::find(words.begin(), words.end(), "null") != words.end();
    std::string given = setting.node.IsNull() ? "null" : setting.scalar(expected);
    if (given.empty() && null_allowed) given = "null";
    // SGD, DDP, INFO: capitals have no meaning of their own.
    const auto found = std::find_if(words.begin(), words.end(), [&](const std::string& word) {
        return lower_case(word) == lower_case(given);
    });
    if (found == words.end()) {
        const std::string whole = only_ending_in("/" + lower_case(given), words);
        const std::string near = whole.empty() ? nearest_in_meaning(given, words) : whole;
        if (near.empty())
            setting.fail((given.empty() ? quote(given) : given) + " is not a choice",
                         "use one of " + join(words, ", "));
        setting.wrong(expected, fmt::format("did you mean {}?", near));
    }
    return static_cast<std::size_t>(found - words.begin());
}

Kind<bool> boolean() {
    return {"true | false",
            [](const Setting& setting) {
                bool value = false;
                if (!setting.node.IsScalar() || !YAML::convert<bool>::decode(setting.node, value))
                    setting.wrong("true or false");
                return value;
            },
            [](const bool& value) { return std::string(value ? "true" : "false"); }};
}

Kind<std::int64_t> integer(std::int64_t at_least, std::int64_t at_most) {
    return {"integer",
            [=](const Setting& setting) {
                std::int64_t value = 0;
                const std::errc status = read(setting.scalar("an integer"), value);
                if (status == std::errc::result_out_of_range) setting.wrong("an integer of 64 bits");
                if (status != std::errc()) setting.wrong("an integer");
                if (value < at_least) setting.wrong(fmt::format("an integer of at least {}", at_least));
                if (value > at_most) setting.wrong(fmt::format("an integer of at most {}", at_most));
                return value;
            },
            [](const std::int64_t& value) { return fmt::format("{}", value); }};
}

Kind<std::int64_t> power_of_two(std::int64_t at_most) {
    Kind<std::int64_t> kind = integer(1, at_most);
    kind.type = "power of two";
    kind.parse = [parse = kind.parse](const Setting& setting) {
        const std::int64_t value = parse(setting);
        if (!std::has_single_bit(static_cast<std::uint64_t>(value))) setting.wrong("a power of two");
        return value;
    };
    return kind;
}

Kind<double> number(Range range, std::optional<Unit> unit) {
    return {"number",
            [=](const Setting& setting) {
                double value = 0;
                const std::errc status = read(setting.scalar("a number"), value);
                if (status == std::errc::result_out_of_range) setting.wrong("a number of 64 bits");
                const std::string text = setting.scalar("a number");
                const bool begins = !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
                if (status != std::errc() && unit && begins)  // 1h, 25MB
                    setting.wrong(fmt::format("a number of {}", unit->name),
                                  fmt::format("write it without a unit, as in {}", unit->example));
                if (status != std::errc()) setting.wrong("a number");
                if (!inside(range, value)) setting.wrong(describe(range));
                return value;
            },
            // The shortest text that reads back as the same double.
            [](const double& value) { return fmt::format("{}", value); }};
}

Kind<std::string> text(const std::string& type, std::optional<std::string> empty_means) {
    return {type,
            [=](const Setting& setting) {
                const std::string value = setting.node.IsNull() ? "" : setting.scalar("text");
                if (value.empty() && !empty_means) setting.fail("no value", "write " + type);
                return value;
            },
            [](const std::string& value) { return value.empty() ? "null" : quoted_scalar(value); }};
}

Kind<std::string> path(const std::string& type, std::optional<std::string> empty_means) {
    Kind<std::string> kind = text(type, std::move(empty_means));
    kind.parse = [parse = kind.parse](const Setting& setting) {
        return expanded_path(setting.where + ": " + setting.path, parse(setting));
    };
    return kind;
}

Kind<std::vector<std::string>> paths() {
    const auto entry = path("FILE");
    const auto list = list_of(entry);
    return {"FILE | list of FILE",
            [=](const Setting& setting) -> std::vector<std::string> {
                if (setting.node.IsNull()) return {};
                if (setting.node.IsMap()) setting.wrong("a file or a list of files");
                if (setting.node.IsScalar()) return matching_files(entry.parse(setting));
                return matching_files(list.parse(setting));
            },
            list.print};
}

}  // namespace tutti::config
