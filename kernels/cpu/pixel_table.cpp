// Faster than to divide, or to look each number up, is the product with the divisor's reciprocal and a step
// of correction by what is left, which gives the quotient's bits where the reciprocal is near enough (P.
// Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990). That is
// looked at for all 256 values.

#include "pixel_table.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <type_traits>

#include "../common/pixel.hpp"
#include "tile_vector.hpp"

namespace tutti {
namespace {

/// x / divisor, most often.
inline float quotient(float x, float divisor, float reciprocal) {
    const float near = x * reciprocal;
    return std::fma(std::fma(-near, divisor, x), reciprocal, near);
}
inline float normalized(unsigned char pixel, float mean, float std, float reciprocal) {
    constexpr float white = 255.0f;
    return quotient(quotient(static_cast<float>(pixel), white, 1 / white) - mean, std, reciprocal);
}

}  // namespace

template <class T>
void PixelTable<T>::set(std::span<const float> mean, std::span<const float> std) {
    assert(!mean.empty() && std.size() == mean.size());
    if (std::ranges::equal(mean, mean_) && std::ranges::equal(std, std_)) return;
    mean_.assign(mean.begin(), mean.end());
    std_.assign(std.begin(), std.end());
    table_.resize(256 * mean.size());
    bool by_products = std::is_same_v<T, float> && vector_bytes >= 32;  // then with fused operations
    for (std::size_t value = 0; value < 256; ++value)
        for (std::size_t c = 0; c < mean.size(); ++c) {
            const float exact = normalized_pixel(static_cast<float>(value), mean[c], std[c]);
            table_[value * mean.size() + c] = static_cast<T>(exact);
            const float near = normalized(static_cast<unsigned char>(value), mean[c], std[c], 1 / std[c]);
            by_products &= std::bit_cast<std::uint32_t>(near) == std::bit_cast<std::uint32_t>(exact);
        }
    means_.clear();
    divisors_.clear();
    factors_.clear();
    constexpr std::size_t many_channels = 64;
    if (!by_products || mean.size() > many_channels) return;
    // Of few channels more than one vector each, so that the loop over them is worth its begin.
    constexpr std::size_t least = 256, vector = static_cast<std::size_t>(lanes<float>);
    const std::size_t times = vector * std::max<std::size_t>(least / (vector * mean.size()), 1);
    for (std::size_t i = 0; i < times; ++i)
        for (std::size_t c = 0; c < mean.size(); ++c) {
            means_.push_back(mean[c]);
            divisors_.push_back(std[c]);
            factors_.push_back(1 / std[c]);
        }
}

template <class T>
void PixelTable<T>::look_up(const unsigned char* x, std::int64_t count, T* y) const {
    const T* const table = table_.data();
    const auto channels = static_cast<std::int64_t>(mean_.size());
    if (channels == 1) {
        for (std::int64_t i = 0; i < count; ++i) y[i] = table[x[i]];
        return;
    }
    for (std::int64_t i = 0; i < count; i += channels)
        for (std::int64_t c = 0; c < channels; ++c) y[i + c] = table[x[i + c] * channels + c];
}

template <class T>
void PixelTable<T>::apply(const unsigned char* x, std::int64_t pixels, T* y) const {
    const std::int64_t count = pixels * static_cast<std::int64_t>(mean_.size());
    std::int64_t done = 0;
    if constexpr (std::is_same_v<T, float>) {
        const auto block = static_cast<std::int64_t>(means_.size());
        const float* const mean = means_.data();
        const float* const std = divisors_.data();
        const float* const factor = factors_.data();
        for (; block > 0 && done + block <= count; done += block)
#pragma omp simd
            for (std::int64_t i = 0; i < block; ++i)
                y[done + i] = normalized(x[done + i], mean[i], std[i], factor[i]);
    }
    look_up(x + done, count - done, y + done);
}

template class PixelTable<float>;
template class PixelTable<double>;

}  // namespace tutti
