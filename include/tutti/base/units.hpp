#pragma once
// Sizes and durations as people write and read them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

inline constexpr double mebibyte = 1048576;

/// "1.5 KiB", "25.0 MiB": binary units, one decimal; "512 B" below 1 KiB.
std::string format_bytes(std::uint64_t bytes);

/// "0:07", "12:34", "3:04:05": seconds rounded to whole ones; negative or non-finite prints "?".
std::string format_duration(double seconds);

/// "4K" -> 4096, "256M", "1G", "123": binary multiples. Throws UsageError that names `text`.
std::uint64_t parse_bytes(std::string_view text);

/// Sizes to measure at: "4K:256M" (from the first to at most the second, each twice the one before),
/// "4K:256M:4" (each four times), "4K,1M" (a list), "64K". Throws UsageError that names `text`.
std::vector<std::uint64_t> parse_byte_sizes(std::string_view text);

}  // namespace tutti
