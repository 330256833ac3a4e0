#pragma once
// Samples copied together from places in memory that follow no order.

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tutti {

/// Sample i of `count`, `bytes` bytes at at(i), to out + i · bytes. While one is copied, those after it are
/// on their way, and the addresses of the pages of many more are being looked up (several at once, where
/// lines of one page wait for one look-up). at is called three times for each.
template <class At>
void gather(std::size_t count, std::size_t bytes, const At& at, std::byte* out) {
    const auto fetch = [&](std::size_t i) {
        constexpr std::size_t line = 64, most = 1024;
        const std::byte* const sample = at(i);
        for (std::size_t k = 0; k < std::min(bytes, most); k += line) __builtin_prefetch(sample + k);
    };
    const auto look_up = [&](std::size_t i) { __builtin_prefetch(at(i)); };

    constexpr std::size_t looked_up = 64;  // entries of the first table of addresses (TLB) of a core
    for (std::size_t i = 0; i < std::min(looked_up, count); ++i) look_up(i);
    constexpr std::size_t under_way = 8192;
    const std::size_t ahead = std::min(std::clamp<std::size_t>(under_way / bytes, 1, 16), count);
    for (std::size_t i = 0; i < ahead; ++i) fetch(i);
    for (std::size_t i = 0; i < count; ++i) {
        if (i + looked_up < count) look_up(i + looked_up);
        if (i + ahead < count) fetch(i + ahead);
        std::memcpy(out + i * bytes, at(i), bytes);
    }
}

}  // namespace tutti
