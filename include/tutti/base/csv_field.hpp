#pragma once
// Texts as fields of CSV files.

#include <string>

namespace tutti {

/// `text` as it is, or in quotes where it has a comma, a quote or a line's end (RFC 4180, section 2).
inline std::string csv_field(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + "\"";
}

}  // namespace tutti
