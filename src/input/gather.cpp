#include "gather.hpp"

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

constexpr std::size_t line = 64, most_fetched = 1024, under_way = 8192;
/// Entries of the first table of addresses (TLB) of a core.
constexpr std::size_t looked_up = 64;

}  // namespace

void gather(const std::byte* samples, std::size_t bytes, std::span<const std::int64_t> indices,
            std::byte* out) {
    const std::size_t count = indices.size();
    const auto at = [samples, bytes, index = indices.data()](std::size_t i) {
        return samples + static_cast<std::size_t>(index[i]) * bytes;
    };
    const std::size_t fetched = std::min(bytes, most_fetched);
    const auto fetch = [at, fetched](std::size_t i) {
        const std::byte* const sample = at(i);
        for (std::size_t k = 0; k < fetched; k += line) __builtin_prefetch(sample + k);
    };

    // Where as many as this follow each other, the processor fetches by itself what comes next.
    constexpr std::size_t neighbours = 4;
    const auto run_end = [indices](std::size_t i) {
        const std::size_t begin = i;
        if (begin + neighbours > indices.size() ||
            indices[begin + neighbours - 1] != indices[begin] + std::int64_t{neighbours} - 1)
            return begin;
        while (++i < indices.size() && indices[i] == indices[i - 1] + 1) {
        }
        return i - begin < neighbours ? begin : i;
    };

    const std::size_t ahead = std::min(std::clamp<std::size_t>(under_way / bytes, 1, 16), count);
    if (run_end(0) == 0) {
        for (std::size_t i = 0; i < std::min(looked_up, count); ++i) __builtin_prefetch(at(i));
        for (std::size_t i = 0; i < ahead; ++i) fetch(i);
    }
    for (std::size_t i = 0; i < count;) {
        if (const std::size_t end = run_end(i); end > i) {
            std::memcpy(out + i * bytes, at(i), (end - i) * bytes);
            i = end;
            continue;
        }
        if (i + looked_up < count) __builtin_prefetch(at(i + looked_up));
        if (i + ahead < count) fetch(i + ahead);
        std::memcpy(out + i * bytes, at(i), bytes);
        ++i;
    }
}

}  // namespace tutti
