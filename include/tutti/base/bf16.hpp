#pragma once
// bf16 on its way: the upper half of an IEEE binary32, in 16 bits. No arithmetic is done in it.

#include <bit>
#include <cstdint>
#include <span>

namespace tutti {

/// To the nearest, ties to even; what is beyond the largest bf16 (3.39e38) becomes an infinity; a NaN stays
/// one. Subnormal numbers are kept.
constexpr std::uint16_t bf16_bits(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    // Rounding up could carry a NaN's bits into its exponent.
    return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
}
/// Exact.
constexpr float float_of_bf16(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// As many as `from` has; no overlap.
void round_to_bf16(std::span<const float> from, std::uint16_t* to);
void widen_bf16(std::span<const std::uint16_t> from, float* to);

}  // namespace tutti
