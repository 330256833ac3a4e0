#include "bf16_winograd_tile.hpp"

#include <immintrin.h>

#include <cstddef>

#include "bf16_interleave.hpp"
#include "bf16_transpose.hpp"
#include "bf16_vectors.hpp"

// As in bf16_tile.cpp, only what lies in the unnamed namespace may be inlined here.

namespace tutti {
namespace {

/// Bᵀ·d of a column of four.
void transform_pixels(const __m512 (&d)[4], __m512 (&to)[4]) {
    to[0] = _mm512_sub_ps(d[0], d[2]);
    to[1] = _mm512_add_ps(d[1], d[2]);
    to[2] = _mm512_sub_ps(d[2], d[1]);
    to[3] = _mm512_sub_ps(d[1], d[3]);
}

/// Aᵀ·m of a column of four.
void transform_sums(const __m512 (&m)[4], __m512 (&to)[2]) {
    to[0] = _mm512_add_ps(_mm512_add_ps(m[0], m[1]), m[2]);
    to[1] = _mm512_sub_ps(_mm512_sub_ps(m[1], m[2]), m[3]);
}

/// G·g of a column of three.
template <WindowTransform Transform>
void transform_window(const __m512 (&g)[3], __m512 (&to)[4]) {
    const __m512 outer = _mm512_add_ps(g[0], g[2]);
    to[0] = g[0];
    if constexpr (Transform == WindowTransform::winograd) {
        const __m512 half = _mm512_set1_ps(0.5f);
        to[1] = _mm512_mul_ps(half, _mm512_add_ps(outer, g[1]));
        to[2] = _mm512_mul_ps(half, _mm512_sub_ps(outer, g[1]));
        to[3] = g[2];
    } else {
        to[1] = outer;
        to[2] = g[2];
        to[3] = g[1];
    }
}

/// G·g·Gᵀ of bf16_lanes neighbouring inputs; the window's places lie `in` apart.
template <WindowTransform Transform, bool Turned>
[[gnu::always_inline]] inline void transform_window(const float* window, std::int64_t in,
                                                    __m512 (&to)[4][4]) {
    __m512 half[4][3];
#pragma GCC unroll 3
    for (std::size_t column = 0; column < 3; ++column) {
        __m512 g[3], result[4];
#pragma GCC unroll 3
        for (std::size_t row = 0; row < 3; ++row) {
            const std::size_t place = row * 3 + column;
            g[row] = _mm512_loadu_ps(window + static_cast<std::int64_t>(Turned ? 8 - place : place) * in);
        }
        transform_window<Transform>(g, result);
#pragma GCC unroll 4
        for (std::size_t row = 0; row < 4; ++row) half[row][column] = result[row];
    }
#pragma GCC unroll 4
    for (std::size_t row = 0; row < 4; ++row) transform_window<Transform>(half[row], to[row]);
}

template <WindowTransform Transform>
void transform_weights(const float* weight, std::int64_t in, Bf16Pair* to, std::int64_t product_step,
                       std::int64_t pair_step) {
    __m256i rounded[winograd_products][bf16_lanes];
    for (std::int64_t i = 0; i < in; i += bf16_lanes, to += bf16_lanes / 2 * pair_step) {
        for (std::size_t o = 0; o < bf16_lanes; ++o) {
            __m512 window[4][4];
            transform_window<Transform, false>(weight + static_cast<std::int64_t>(o) * 9 * in + i, in,
                                               window);
#pragma GCC unroll 16
            for (std::size_t p = 0; p < winograd_products; ++p)
                rounded[p][o] = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(window[p / 4][p % 4]));
        }
        for (std::size_t p = 0; p < winograd_products; ++p)
            transpose_pairs(rounded[p], to + static_cast<std::int64_t>(p) * product_step, pair_step);
    }
}

template <WindowTransform Transform>
void transform_weight_pairs(const float* first, const float* second, std::int64_t in, std::int64_t count,
                            Bf16Pair* to, std::int64_t product_step) {
    constexpr bool turned = Transform == WindowTransform::winograd;
    for (std::int64_t i = 0; i < count; i += bf16_lanes) {
        __m512 a[4][4], b[4][4];
        transform_window<Transform, turned>(first + i, in, a);
        transform_window<Transform, turned>(second + i, in, b);
#pragma GCC unroll 16
        for (std::size_t p = 0; p < winograd_products; ++p)
            _mm512_storeu_si512(to + static_cast<std::int64_t>(p) * product_step + i,
                                interleaved(a[p / 4][p % 4], b[p / 4][p % 4]));
    }
}

template <class Value>
void transform_pixels(const Value* const* pixels, std::int64_t channels, Bf16Pair* to,
                      std::int64_t product_step) {
    for (std::int64_t c = 0; c < channels; c += bf16_lanes, to += bf16_lanes / 2) {
        __m512 half[4][4];
#pragma GCC unroll 4
        for (std::size_t column = 0; column < 4; ++column) {
            __m512 d[4], result[4];
#pragma GCC unroll 4
            for (std::size_t row = 0; row < 4; ++row) d[row] = load_values(pixels[row * 4 + column] + c);
            transform_pixels(d, result);
#pragma GCC unroll 4
            for (std::size_t row = 0; row < 4; ++row) half[row][column] = result[row];
        }
        Bf16Pair* product = to;
#pragma GCC unroll 4
        for (std::size_t row = 0; row < 4; ++row) {
            __m512 result[4];
            transform_pixels(half[row], result);
#pragma GCC unroll 4
            for (std::size_t column = 0; column < 4; ++column, product += product_step)
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(product),
                                    reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(result[column])));
        }
    }
}

template <class Value>
void transform_sums(const float* sums, std::int64_t product_step, std::int64_t channels, const float* bias,
                    Value* const* y) {
    for (std::int64_t c = 0; c < channels; c += bf16_lanes) {
        __m512 half[2][4];
#pragma GCC unroll 4
        for (std::size_t column = 0; column < 4; ++column) {
            __m512 m[4], result[2];
#pragma GCC unroll 4
            for (std::size_t row = 0; row < 4; ++row)
                m[row] =
                    _mm512_loadu_ps(sums + static_cast<std::int64_t>(row * 4 + column) * product_step + c);
            transform_sums(m, result);
            half[0][column] = result[0];
            half[1][column] = result[1];
        }
        const __m512 shift = bias ? _mm512_loadu_ps(bias + c) : _mm512_setzero_ps();
#pragma GCC unroll 2
        for (std::size_t row = 0; row < 2; ++row) {
            __m512 result[2];
            transform_sums(half[row], result);
#pragma GCC unroll 2
            for (std::size_t column = 0; column < 2; ++column)
                if (Value* const to = y[row * 2 + column])
                    store_values(_mm512_add_ps(result[column], shift), to + c);
        }
    }
}

}  // namespace

void transform_winograd_pixels(const float* const* pixels, std::int64_t channels, Bf16Pair* to,
                               std::int64_t product_step) {
    transform_pixels(pixels, channels, to, product_step);
}
void transform_winograd_pixels(const std::uint16_t* const* pixels, std::int64_t channels, Bf16Pair* to,
                               std::int64_t product_step) {
    transform_pixels(pixels, channels, to, product_step);
}

void transform_winograd_sums(const float* sums, std::int64_t product_step, std::int64_t channels,
                             const float* bias, float* const* y) {
    transform_sums(sums, product_step, channels, bias, y);
}
void transform_winograd_sums(const float* sums, std::int64_t product_step, std::int64_t channels,
                             const float* bias, std::uint16_t* const* y) {
    transform_sums(sums, product_step, channels, bias, y);
}

void transform_winograd_weights(WindowTransform transform, const float* weight, std::int64_t in, Bf16Pair* to,
                                std::int64_t product_step, std::int64_t pair_step) {
    const auto compute = transform == WindowTransform::winograd ? transform_weights<WindowTransform::winograd>
                                                                : transform_weights<WindowTransform::phases>;
    compute(weight, in, to, product_step, pair_step);
}

void transform_winograd_weight_pairs(WindowTransform transform, const float* first, const float* second,
                                     std::int64_t in, std::int64_t count, Bf16Pair* to,
                                     std::int64_t product_step) {
    const auto compute = transform == WindowTransform::winograd
                             ? transform_weight_pairs<WindowTransform::winograd>
                             : transform_weight_pairs<WindowTransform::phases>;
    compute(first, second, in, count, to, product_step);
}

}  // namespace tutti
