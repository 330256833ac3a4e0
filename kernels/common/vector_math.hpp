#pragma once
// Functions of one number whose fp32 forms have no branches and no calls, so that loops over them vectorize.
// In fp64, the reference, they are the standard library's.

#include <cmath>
#include <cstdint>
#include <numbers>

#include "host_device.hpp"

namespace tutti {

/// e^x for x ≤ 0; NaN stays NaN. In fp32 the relative error is below 2^-22, and below −87 the result is e^−87
/// ≈ 1.6e-38, which sums and products with ordinary numbers do not see.
HOST_DEVICE inline double exp_nonpositive(double x) {
    return std::exp(x);
}
HOST_DEVICE inline float exp_nonpositive(float x) {
    constexpr float to_integer =
        12582912.0f;  // 1.5·2^23: added to a small number it leaves the nearest integer
    // ln 2 in two parts; the products of the first, which has 9 bits, with integers below 2^15 are exact.
    constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    const float bounded = x < -87.0f ? -87.0f : x;
    const float shifted = fmaf(bounded, std::numbers::log2e_v<float>, to_integer);
    const float n = shifted - to_integer;
    const float r = fmaf(n, -ln2_low, fmaf(n, -ln2_high, bounded));
    // Taylor's polynomial: for |r| ≤ ln(2)/2 the next term is below 6e-9.
    float sum = 1.0f / 5040;
    sum = fmaf(sum, r, 1.0f / 720);
    sum = fmaf(sum, r, 1.0f / 120);
    sum = fmaf(sum, r, 1.0f / 24);
    sum = fmaf(sum, r, 1.0f / 6);
    sum = fmaf(sum, r, 0.5f);
    sum = fmaf(sum, r, 1.0f);
    sum = fmaf(sum, r, 1.0f);
    // The low bits of `shifted` hold n: moved up they are the exponent of 2^n.
    const std::uint32_t exponent = (__builtin_bit_cast(std::uint32_t, shifted) << 23) + 0x3f800000u;
    return sum * __builtin_bit_cast(float, exponent);
}

/// Φ(x) of the standard normal distribution, given gauss = e^(−x²/2).
/// fp32: Φ(−|x|) = t·P(t)·e^(−x²/2)/2 with t = 1/(1 + 0.4·|x|/√2), the form of Abramowitz & Stegun 7.1.26
/// with a polynomial of degree 8, fitted to erfc by weighted least squares until the relative error was even
/// (6e-8).
HOST_DEVICE inline double normal_distribution(double x, double /*gauss*/) {
    return 0.5 * std::erfc(-x * (std::numbers::sqrt2 / 2));
}
HOST_DEVICE inline float normal_distribution(float x, float gauss) {
    const float t = 1.0f / fmaf(std::abs(x), 0.4f * std::numbers::sqrt2_v<float> / 2, 1.0f);
    float sum = 0.03983520058f;
    sum = fmaf(sum, t, -0.13333513826f);
    sum = fmaf(sum, t, 0.06934986342f);
    sum = fmaf(sum, t, 0.10496966379f);
    sum = fmaf(sum, t, 0.06780984759f);
    sum = fmaf(sum, t, 0.19857626966f);
    sum = fmaf(sum, t, 0.20053493757f);
    sum = fmaf(sum, t, 0.22663681309f);
    sum = fmaf(sum, t, 0.22562259839f);
    const float tail = 0.5f * gauss * sum * t;
    return x >= 0 ? 1.0f - tail : tail;
}

}  // namespace tutti
