#include "bf16_winograd_gradient_tile.hpp"

#include <immintrin.h>

#include <cstddef>

#include "bf16_interleave.hpp"
#include "bf16_vectors.hpp"

// As in bf16_tile.cpp, only what lies in the unnamed namespace may be inlined here.

namespace tutti {
namespace {

/// A row of four transformed numbers of two tiles.
template <std::size_t Row>
void store_pairs(const __m512 (&a)[4], const __m512 (&b)[4], Bf16Pair* to, std::int64_t product_step) {
#pragma GCC unroll 4
    for (std::size_t column = 0; column < 4; ++column)
        _mm512_storeu_si512(to + static_cast<std::int64_t>(Row * 4 + column) * product_step,
                            interleaved(a[column], b[column]));
}

/// Row `Row` of Bᵀ·d: the sum or difference of two rows of pixels.
template <std::size_t Row, class Value>
__m512 row_of_pixels(const Value* const* pixels, std::size_t column, std::int64_t channel) {
    const auto pixel = [&](std::size_t row) { return load_values(pixels[row * 4 + column] + channel); };
    if constexpr (Row == 0) return _mm512_sub_ps(pixel(0), pixel(2));
    if constexpr (Row == 1) return _mm512_add_ps(pixel(1), pixel(2));
    if constexpr (Row == 2) return _mm512_sub_ps(pixel(2), pixel(1));
    return _mm512_sub_ps(pixel(1), pixel(3));
}

/// Row `Row` of Bᵀ·d·B.
template <std::size_t Row, class Value>
void transform_pixels(const Value* const* pixels, std::int64_t channel, __m512 (&to)[4]) {
    __m512 d[4];
#pragma GCC unroll 4
    for (std::size_t column = 0; column < 4; ++column)
        d[column] = row_of_pixels<Row>(pixels, column, channel);
    to[0] = _mm512_sub_ps(d[0], d[2]);
    to[1] = _mm512_add_ps(d[1], d[2]);
    to[2] = _mm512_sub_ps(d[2], d[1]);
    to[3] = _mm512_sub_ps(d[1], d[3]);
}

template <std::size_t Row, class Value>
void pair_pixels(const Value* const* first, const Value* const* second, std::int64_t channel, Bf16Pair* to,
                 std::int64_t product_step) {
    __m512 a[4], b[4];
    transform_pixels<Row>(first, channel, a);
    transform_pixels<Row>(second, channel, b);
    store_pairs<Row>(a, b, to, product_step);
}

/// Row `Row` of A·dy·Aᵀ.
template <std::size_t Row, class Value>
void transform_gradients(const Value* const* pixels, std::int64_t channel, __m512 (&to)[4]) {
    const auto column = [&](std::size_t at) {
        const auto pixel = [&](std::size_t row) { return load_values(pixels[row * 2 + at] + channel); };
        if constexpr (Row == 0) return pixel(0);
        if constexpr (Row == 1) return _mm512_add_ps(pixel(0), pixel(1));
        if constexpr (Row == 2) return _mm512_sub_ps(pixel(0), pixel(1));
        return pixel(1);
    };
    const __m512 left = column(0), right = column(1);
    to[0] = left;
    to[1] = _mm512_add_ps(left, right);
    to[2] = _mm512_sub_ps(left, right);
    to[3] = right;
}

template <std::size_t Row, class Value>
void pair_gradients(const Value* const* first, const Value* const* second, std::int64_t channel, Bf16Pair* to,
                    std::int64_t product_step) {
    __m512 a[4], b[4];
    transform_gradients<Row>(first, channel, a);
    transform_gradients<Row>(second, channel, b);
    store_pairs<Row>(a, b, to, product_step);
}

/// Gᵀ·m of a column of four.
template <WindowTransform Transform>
void transform_sums(const __m512 (&m)[4], __m512 (&to)[3]) {
    if constexpr (Transform == WindowTransform::phases) {
        to[0] = _mm512_add_ps(m[0], m[1]);
        to[1] = m[3];
        to[2] = _mm512_add_ps(m[1], m[2]);
    } else {
        const __m512 half = _mm512_set1_ps(0.5f);
        const __m512 sum = _mm512_mul_ps(half, _mm512_add_ps(m[1], m[2]));
        to[0] = _mm512_add_ps(m[0], sum);
        to[1] = _mm512_mul_ps(half, _mm512_sub_ps(m[1], m[2]));
        to[2] = _mm512_sub_ps(sum, m[3]);
    }
}

template <class Value>
void pair_all_pixels(const Value* const* first, const Value* const* second, std::int64_t channel,
                     std::int64_t count, Bf16Pair* to, std::int64_t product_step) {
    for (const std::int64_t end = channel + count; channel < end; channel += bf16_lanes, to += bf16_lanes) {
        pair_pixels<0>(first, second, channel, to, product_step);
        pair_pixels<1>(first, second, channel, to, product_step);
        pair_pixels<2>(first, second, channel, to, product_step);
        pair_pixels<3>(first, second, channel, to, product_step);
    }
}

template <class Value>
void pair_all_gradients(const Value* const* first, const Value* const* second, std::int64_t channel,
                        std::int64_t count, Bf16Pair* to, std::int64_t product_step) {
    for (const std::int64_t end = channel + count; channel < end; channel += bf16_lanes, to += bf16_lanes) {
        pair_gradients<0>(first, second, channel, to, product_step);
        pair_gradients<1>(first, second, channel, to, product_step);
        pair_gradients<2>(first, second, channel, to, product_step);
        pair_gradients<3>(first, second, channel, to, product_step);
    }
}

template <WindowTransform Transform>
void transform_gradient_sums(const float* sums, std::int64_t product_step, std::int64_t count, float* dweight,
                             std::int64_t in) {
    for (std::int64_t i = 0; i < count; i += bf16_lanes) {
        __m512 half[3][4];
#pragma GCC unroll 4
        for (std::size_t column = 0; column < 4; ++column) {
            __m512 m[4], result[3];
#pragma GCC unroll 4
            for (std::size_t row = 0; row < 4; ++row)
                m[row] =
                    _mm512_loadu_ps(sums + static_cast<std::int64_t>(row * 4 + column) * product_step + i);
            transform_sums<Transform>(m, result);
#pragma GCC unroll 3
            for (std::size_t row = 0; row < 3; ++row) half[row][column] = result[row];
        }
#pragma GCC unroll 3
        for (std::size_t row = 0; row < 3; ++row) {
            __m512 result[3];
            transform_sums<Transform>(half[row], result);
#pragma GCC unroll 3
            for (std::size_t column = 0; column < 3; ++column)
                _mm512_storeu_ps(dweight + static_cast<std::int64_t>(row * 3 + column) * in + i,
                                 result[column]);
        }
    }
}

}  // namespace

void transform_winograd_pixel_pairs(const float* const* first, const float* const* second,
                                    std::int64_t channel, std::int64_t count, Bf16Pair* to,
                                    std::int64_t product_step) {
    pair_all_pixels(first, second, channel, count, to, product_step);
}
void transform_winograd_pixel_pairs(const std::uint16_t* const* first, const std::uint16_t* const* second,
                                    std::int64_t channel, std::int64_t count, Bf16Pair* to,
                                    std::int64_t product_step) {
    pair_all_pixels(first, second, channel, count, to, product_step);
}

void transform_winograd_gradient_pairs(const float* const* first, const float* const* second,
                                       std::int64_t channel, std::int64_t count, Bf16Pair* to,
                                       std::int64_t product_step) {
    pair_all_gradients(first, second, channel, count, to, product_step);
}
void transform_winograd_gradient_pairs(const std::uint16_t* const* first, const std::uint16_t* const* second,
                                       std::int64_t channel, std::int64_t count, Bf16Pair* to,
                                       std::int64_t product_step) {
    pair_all_gradients(first, second, channel, count, to, product_step);
}

void transform_winograd_gradient_sums(WindowTransform transform, const float* sums, std::int64_t product_step,
                                      std::int64_t count, float* dweight, std::int64_t in) {
    const auto compute = transform == WindowTransform::winograd
                             ? transform_gradient_sums<WindowTransform::winograd>
                             : transform_gradient_sums<WindowTransform::phases>;
    compute(sums, product_step, count, dweight, in);
}

}  // namespace tutti
