#pragma once
// JSON documents as text.

#include <string>

namespace tutti {

/// `document`, an nlohmann::json or ordered_json, on one line, or with `indent` spaces for each level. Names
/// of files and what a system says are bytes: what is no UTF-8 in a string becomes U+FFFD, where dump() would
/// throw and a finished measurement would be lost.
template <class Json>
std::string json_text(const Json& document, int indent = -1) {
    return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// The same on one line with a blank behind each colon and comma, as the rows of metrics.jsonl are written.
template <class Json>
std::string json_row(const Json& document) {
    std::string row;
    bool in_text = false, escaped = false;
    for (const char c : json_text(document)) {
        row += c;
        if (in_text && !escaped && c == '\\') {
            escaped = true;
            continue;
        }
        if (c == '"' && !escaped) in_text = !in_text;
        escaped = false;
        if (!in_text && (c == ':' || c == ',')) row += ' ';
    }
    return row;
}

}  // namespace tutti
