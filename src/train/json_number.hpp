#pragma once
// Numbers in the rows of metrics.jsonl.

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace tutti {

/// 17 digits, or null: JSON has no word for what is not finite.
inline std::string json_number(double value) {
    return std::isfinite(value) ? fmt::format("{:.17g}", value) : "null";
}

}  // namespace tutti
