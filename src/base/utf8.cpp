#include "tutti/base/utf8.hpp"

namespace tutti {
namespace {

/// Bytes of the character that begins here, or 0. RFC 3629, section 4.
std::size_t character(std::string_view text) {
    const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return 1;
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
    // The second byte has narrower bounds behind some first ones; all others are 80 … bf.
    const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (byte(1) < least || byte(1) > most) return 0;
    for (std::size_t i = 2; i < length; ++i)
        if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
    return length;
}

}  // namespace

std::size_t utf8_prefix(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t length = character(text.substr(at));
        if (length == 0) break;
        at += length;
    }
    return at;
}

std::string as_utf8(std::string_view text) {
    std::string result;
    for (;;) {
        const std::size_t right = utf8_prefix(text);
        result += text.substr(0, right);
        if (right == text.size()) return result;
        result += "\xef\xbf\xbd";
        text.remove_prefix(right + 1);
    }
}

}  // namespace tutti
