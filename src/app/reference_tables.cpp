#include "reference_tables.hpp"

#include <fmt/format.h>

#include <string>

#include "tutti/base/config.hpp"
#include "tutti/base/familiar_options.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

// A bar would end the cell.
std::string cell(const std::string& text) {
    std::string result;
    for (const char c : text) {
        if (c == '|') result += '\\';
        result += c;
    }
    return result;
}

std::string code(const std::string& text) {
    return text.empty() ? "" : "`" + cell(text) + "`";
}

std::string list(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + code(word);
    return text;
}

}  // namespace

void print_config_reference() {
    fmt::print("| key | type | default | meaning |\n|---|---|---|---|\n");
    for (const ConfigKey& key : config_reference())
        fmt::print("| {} | {} | {} | {} |\n", code(key.path), cell(key.type), code(key.default_value),
                   cell(key.help));
}

void print_layer_reference() {
    fmt::print("| layer | needs | may have |\n|---|---|---|\n");
    for (const LayerKind& kind : layer_kinds())
        fmt::print("| {} | {} | {} |\n", code(kind.kind), list(kind.required), list(kind.optional));
}

void print_option_reference() {
    using Meaning = FamiliarOption::Meaning;
    const auto meaning = [](const FamiliarOption& option) {
        if (option.meaning == Meaning::refused) return "refused: " + cell(option.note);
        if (option.meaning == Meaning::needless) return "accepted: " + cell(option.note);
        const std::string fixed = option.fixed.empty() ? "" : "=" + option.fixed;
        return code(option.target + fixed) + (option.note.empty() ? "" : ", " + cell(option.note));
    };
    fmt::print("| option | of | here |\n|---|---|---|\n");
    for (const FamiliarOption& option : familiar_options())
        fmt::print("| {}{} | {} | {} |\n", code(option.name),
                   option.command.empty() || option.command == "train" ? "" : ", " + option.command,
                   option.from, meaning(option));
}

}  // namespace tutti
