#pragma once
// Letters in capitals as small ones.

#include <string>
#include <string_view>

namespace tutti {

/// A to Z as a to z, whatever the locale; all other bytes as they are.
inline std::string lower_case(std::string_view text) {
    std::string lower(text);
    for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return lower;
}

}  // namespace tutti
