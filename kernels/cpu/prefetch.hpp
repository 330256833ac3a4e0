#pragma once
// Hints for memory that will be read in an order that the processor does not foresee.

#include <cstdint>

namespace tutti {

/// Brings one of so many parts of the memory into the second-level cache, for writing where it is `Written`.
template <bool Written>
void prefetch_part(const void* memory, std::int64_t bytes, std::int64_t part, std::int64_t parts) {
    constexpr std::int64_t line = 64;
    const auto* const first = static_cast<const char*>(memory);
    const std::int64_t end = bytes * (part + 1) / parts;
    for (std::int64_t at = bytes * part / parts; at < end; at += line)
        __builtin_prefetch(first + at, Written ? 1 : 0, 2);
}

}  // namespace tutti
