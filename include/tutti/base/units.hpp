#pragma once
// Sizes and durations as people write and read them.

#include <concepts>
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

/// "0.1234", "4.43e+44", "2.345e-05": a loss or an error for people. Four decimals, or four digits where
/// those would show too few or too many: from 1e6 on and below 1e-3.
std::string format_number(double value);

/// "1 step", "2 steps"; `several` where the plural takes more than an s: counted(n, "batch", "batches").
template <std::integral Count>
std::string counted(Count count, std::string_view one, std::string_view several = {}) {
    std::string text = std::to_string(count) + ' ';
    if (count == 1) return text.append(one);
    return several.empty() ? text.append(one) + 's' : text.append(several);
}

/// "4K" -> 4096, "256M", "1G", "123": binary multiples. Throws UsageError that names `text`.
std::uint64_t parse_bytes(std::string_view text);

/// Sizes to measure at: "4K:256M" (from the first to at most the second, each twice the one before),
/// "4K:256M:4" (each four times), "4K,1M" (a list), "64K". Throws UsageError that names `text`.
std::vector<std::uint64_t> parse_byte_sizes(std::string_view text);

}  // namespace tutti
