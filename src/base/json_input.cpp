#include "tutti/base/json_input.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tutti/base/error.hpp"
#include "tutti/base/utf8.hpp"

namespace tutti {

std::size_t json_depth(std::string_view text) {
    std::size_t depth = 0, deepest = 0;
    bool in_text = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_text && c == '\\')
            ++i;  // the next one is part of the text
        else if (c == '"')
            in_text = !in_text;
        else if (!in_text && (c == '[' || c == '{'))
            deepest = std::max(deepest, ++depth);
        else if (!in_text && (c == ']' || c == '}') && depth > 0)
            --depth;
    }
    return deepest;
}

std::string json_problem(std::string_view what) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …; last read: '…'"
    if (what.starts_with("[json."))
        if (const std::size_t end = what.find("] "); end != std::string_view::npos)
            what.remove_prefix(end + 2);
    constexpr std::size_t longest = 200;
    if (what.size() <= longest) return std::string(what);
    const std::string_view head = what.substr(0, longest / 2), tail = what.substr(what.size() - longest / 2);
    return fmt::format("{} … {}", as_utf8(head), as_utf8(tail));
}

void refuse_deep_json(std::string_view text) {
    if (json_depth(text) > deepest_json)
        throw DataError(
            fmt::format("lists and objects are nested more than {} deep, which ours are not", deepest_json));
}

}  // namespace tutti
