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

}  // namespace tutti
