#include "reference_tables.hpp"

#include <fmt/format.h>

#include <string>

#include "tutti/base/config.hpp"
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

}  // namespace tutti
