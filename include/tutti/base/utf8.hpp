#pragma once
// Text in UTF-8 (RFC 3629).

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

/// Bytes from the beginning of `text` that are whole characters in UTF-8: text.size() where all are. No
/// overlong forms, surrogates, or numbers beyond U+10FFFF. Pure.
std::size_t utf8_prefix(std::string_view text);

inline bool is_utf8(std::string_view text) {
    return utf8_prefix(text) == text.size();
}

/// Each byte that is no UTF-8 becomes U+FFFD. Pure.
std::string as_utf8(std::string_view text);

}  // namespace tutti
