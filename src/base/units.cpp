#include "tutti/base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "tutti/base/error.hpp"

namespace tutti {

std::string format_bytes(std::uint64_t bytes) {
    static constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) return fmt::format("{} B", bytes);
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    // 1023.95 would print as "1024.0", which is one of the next unit.
    while (value >= 1023.95 && unit + 1 < units.size()) {
        value /= 1024;
        ++unit;
    }
    return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string format_duration(double seconds) {
    static constexpr double longest = 1e15;  // beyond that a double no longer counts single seconds exactly
    if (!(seconds >= 0) || seconds > longest) return "?";
    const auto total = static_cast<std::uint64_t>(std::llround(seconds));
    const auto hours = total / 3600;
    const auto minutes = total / 60 % 60;
    if (hours == 0) return fmt::format("{}:{:02}", minutes, total % 60);
    return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
}

std::string format_number(double value) {
    const double size = std::abs(value);
    return size >= 1e6 || (size > 0 && size < 1e-3) ? fmt::format("{:.4g}", value)
                                                    : fmt::format("{:.4f}", value);
}

std::uint64_t parse_bytes(std::string_view text) {
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, status] = std::from_chars(text.data(), end, number);
    const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
    int shift = -1;
    if (suffix.empty()) shift = 0;
    if (suffix == "K") shift = 10;
    if (suffix == "M") shift = 20;
    if (suffix == "G") shift = 30;
    if (suffix == "T") shift = 40;
    if (status == std::errc::invalid_argument || shift < 0)
        throw UsageError(fmt::format("\"{}\" is not a size in bytes", text),
                         "write a whole number, with K, M, G or T for binary multiples");
    if (status == std::errc::result_out_of_range ||
        number > std::numeric_limits<std::uint64_t>::max() >> static_cast<unsigned>(shift))
        throw UsageError(fmt::format("\"{}\" is more bytes than 64 bits can count", text),
                         "write a smaller size");
    return number << static_cast<unsigned>(shift);
}

std::vector<std::uint64_t> parse_byte_sizes(std::string_view text) {
    const auto split = [&](char separator) {
        std::vector<std::string_view> parts;
        for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
            end = text.find(separator, begin);
            parts.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
        }
        return parts;
    };
    std::vector<std::uint64_t> sizes;
    if (text.find(':') == std::string_view::npos) {
        for (const std::string_view part : split(',')) sizes.push_back(parse_bytes(part));
        return sizes;
    }
    const auto parts = split(':');
    const char* const remedy = "write FROM:TO or FROM:TO:FACTOR, like 4K:256M, or a list like 4K,1M";
    if (parts.size() > 3)
        throw UsageError(fmt::format("\"{}\" has too many colons for a range of sizes", text), remedy);
    const std::uint64_t first = parse_bytes(parts[0]), last = parse_bytes(parts[1]);
    const std::uint64_t factor = parts.size() == 3 ? parse_bytes(parts[2]) : 2;
    if (first == 0 || first > last || factor < 2)
        throw UsageError(
            fmt::format("\"{}\" is no range of sizes: it must ascend from more than 0 bytes by a "
                        "factor of at least 2",
                        text),
            remedy);
    for (std::uint64_t size = first; size <= last; size *= factor) {
        sizes.push_back(size);
        if (size > last / factor) break;
    }
    return sizes;
}

}  // namespace tutti
