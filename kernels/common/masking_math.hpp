#pragma once
// Masked pre-training: which places are hidden, and how a patch is normalised. The contract is in
// include/tutti/device/masking_ops.hpp.

#include <cmath>
#include <cstdint>

#include "host_device.hpp"
#include "tutti/base/random.hpp"

namespace tutti {

/// The numbers of one sample's mask.
constexpr RandomStream mask_stream(std::int64_t seed, std::int64_t epoch, std::int64_t position) {
    return {seed, RandomPlace::mask, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(position)};
}
constexpr std::uint64_t mask_key(const RandomStream& random, std::int64_t place) {
    const auto words = random.bits(static_cast<std::uint64_t>(place));
    return std::uint64_t{words[0]} << 32 | words[1];
}
/// Whether place a, with key x, is hidden before place b, with key y.
constexpr bool hidden_before(std::uint64_t x, std::int64_t a, std::uint64_t y, std::int64_t b) {
    return x < y || (x == y && a < b);
}

/// Where the cells of a sample begin; `random` as of mask_stream.
constexpr std::int64_t cell_start(const RandomStream& random, std::int64_t places) {
    return random.bits(static_cast<std::uint64_t>(places))[0] % 4;
}
/// The j-th of the tokens of a place that are kept (RunningCells).
constexpr std::int64_t kept_token(std::int64_t place, std::int64_t repeats, std::int64_t columns,
                                  std::int64_t dropped, std::int64_t start, std::int64_t j) {
    const std::int64_t q = place / columns % 2 * 2 + place % columns % 2;
    std::int64_t repeat = j / (4 - dropped) * 4, kept = j % (4 - dropped);
    while ((q + start + repeat) % 4 < dropped || kept-- > 0) ++repeat;
    return place * repeats + repeat;
}

/// What a channel of a patch is normalised with.
struct PatchScale {
    double mean, factor;
    /// squares: Σ (x − mean)² over `count` elements.
    HOST_DEVICE static PatchScale of(double mean, double squares, std::int64_t count, double epsilon) {
        const double variance = count > 1 ? squares / static_cast<double>(count - 1) : 0;
        return {mean, 1 / (std::sqrt(variance) + epsilon)};
    }
    HOST_DEVICE double operator()(double x) const { return (x - mean) * factor; }
};

}  // namespace tutti
