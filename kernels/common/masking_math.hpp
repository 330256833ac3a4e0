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
