#include "bf16_phase_tile.hpp"

#include <immintrin.h>

#include <cstddef>

#include "bf16_interleave.hpp"
#include "bf16_vectors.hpp"

// As in bf16_tile.cpp, only what lies in the unnamed namespace may be inlined here.

namespace tutti {
namespace {

constexpr std::size_t entries = phase_entries, gradient_entries = phase_gradient_entries;

/// Entry `Entry` of five pixels u0, v0, u1, v1, u2.
template <std::size_t Entry, class Pixel>
__m512 entry_of_pixels(const Pixel& pixel) {
    if constexpr (Entry == 0) return _mm512_sub_ps(pixel(0), pixel(2));
    if constexpr (Entry == 1) return pixel(2);
    if constexpr (Entry == 2) return _mm512_sub_ps(pixel(4), pixel(2));
    return pixel(Entry == 3 ? 1 : 3);
}
/// Of two gradients.
template <std::size_t Entry, class Pixel>
__m512 entry_of_gradients(const Pixel& pixel) {
    if constexpr (Entry == 1) return _mm512_add_ps(pixel(0), pixel(1));
    return pixel(Entry == 0 || Entry == 3 ? 0 : 1);
}

struct OfPixels {
    static constexpr std::size_t size = 5;
    template <std::size_t Entry, class Pixel>
    static __m512 entry(const Pixel& pixel) {
        return entry_of_pixels<Entry>(pixel);
    }
};
struct OfGradients {
    static constexpr std::size_t size = 2;
    template <std::size_t Entry, class Pixel>
    static __m512 entry(const Pixel& pixel) {
        return entry_of_gradients<Entry>(pixel);
    }
};

/// Row `Row` of the entries, before they are made along the row.
template <class Of, std::size_t Row, class Value>
void make_row(const Value* const* pixels, std::int64_t channel, __m512 (&d)[Of::size]) {
#pragma GCC unroll 5
    for (std::size_t column = 0; column < Of::size; ++column)
        d[column] = Of::template entry<Row>(
            [&](std::size_t row) { return load_values(pixels[row * Of::size + column] + channel); });
}

void store_entry(__m512 value, Bf16Pair* to, std::int64_t channel) {
    if (to) store_values(value, reinterpret_cast<std::uint16_t*>(to) + channel);
}

template <class Of, std::size_t Row, class Value>
void store_row(const Value* const* pixels, std::int64_t channel, Bf16Pair* const* to) {
    __m512 d[Of::size];
    make_row<Of, Row>(pixels, channel, d);
    const auto of = [&](std::size_t column) { return d[column]; };
    Bf16Pair* const* const row = to + Row * entries;
    store_entry(Of::template entry<0>(of), row[0], channel);
    store_entry(Of::template entry<1>(of), row[1], channel);
    store_entry(Of::template entry<2>(of), row[2], channel);
    store_entry(Of::template entry<3>(of), row[3], channel);
    store_entry(Of::template entry<4>(of), row[4], channel);
}

template <class Of, class Value>
void transform(const Value* const* pixels, std::int64_t channels, Bf16Pair* const* to) {
    for (std::int64_t c = 0; c < channels; c += bf16_lanes) {
        store_row<Of, 0>(pixels, c, to);
        store_row<Of, 1>(pixels, c, to);
        store_row<Of, 2>(pixels, c, to);
        store_row<Of, 3>(pixels, c, to);
        store_row<Of, 4>(pixels, c, to);
    }
}

void store_pair(__m512 first, __m512 second, Bf16Pair* to, std::int64_t channel) {
    if (to) _mm512_storeu_si512(to + channel, interleaved(first, second));
}

template <class Of, std::size_t Row, class Value>
void store_row_of_pairs(const Value* const* first, const Value* const* second, std::int64_t channel,
                        std::int64_t at, Bf16Pair* const* to) {
    __m512 a[Of::size], b[Of::size];
    make_row<Of, Row>(first, channel, a);
    make_row<Of, Row>(second, channel, b);
    const auto of_a = [&](std::size_t column) { return a[column]; };
    const auto of_b = [&](std::size_t column) { return b[column]; };
    Bf16Pair* const* const row = to + Row * entries;
    store_pair(Of::template entry<0>(of_a), Of::template entry<0>(of_b), row[0], at);
    store_pair(Of::template entry<1>(of_a), Of::template entry<1>(of_b), row[1], at);
    store_pair(Of::template entry<2>(of_a), Of::template entry<2>(of_b), row[2], at);
    store_pair(Of::template entry<3>(of_a), Of::template entry<3>(of_b), row[3], at);
    store_pair(Of::template entry<4>(of_a), Of::template entry<4>(of_b), row[4], at);
}

template <class Of, class Value>
void transform_pairs(const Value* const* first, const Value* const* second, std::int64_t channel,
                     std::int64_t count, Bf16Pair* const* to) {
    for (std::int64_t at = 0; at < count; at += bf16_lanes) {
        store_row_of_pairs<Of, 0>(first, second, channel + at, at, to);
        store_row_of_pairs<Of, 1>(first, second, channel + at, at, to);
        store_row_of_pairs<Of, 2>(first, second, channel + at, at, to);
        store_row_of_pairs<Of, 3>(first, second, channel + at, at, to);
        store_row_of_pairs<Of, 4>(first, second, channel + at, at, to);
    }
}

/// The first and the second output of five sums.
template <class Sum>
__m512 first_output(const Sum& sum) {
    return _mm512_add_ps(_mm512_add_ps(sum(0), sum(1)), sum(3));
}
template <class Sum>
__m512 second_output(const Sum& sum) {
    return _mm512_add_ps(_mm512_add_ps(sum(1), sum(2)), sum(4));
}

template <class Value>
void transform_sums(const float* const* sums, std::int64_t channels, const float* bias, Value* const* y) {
    for (std::int64_t c = 0; c < channels; c += bf16_lanes) {
        __m512 half[2][entries];
#pragma GCC unroll 5
        for (std::size_t column = 0; column < entries; ++column) {
            const auto sum = [&](std::size_t row) {
                return _mm512_loadu_ps(sums[row * entries + column] + c);
            };
            half[0][column] = first_output(sum);
            half[1][column] = second_output(sum);
        }
        const __m512 shift = bias ? _mm512_loadu_ps(bias + c) : _mm512_setzero_ps();
#pragma GCC unroll 2
        for (std::size_t row = 0; row < 2; ++row) {
            const auto sum = [&](std::size_t column) { return half[row][column]; };
            if (Value* const to = y[row * 2]) store_values(_mm512_add_ps(first_output(sum), shift), to + c);
            if (Value* const to = y[row * 2 + 1])
                store_values(_mm512_add_ps(second_output(sum), shift), to + c);
        }
    }
}

/// Pixel `Pixel` of u, v, u, v, of six sums.
template <std::size_t Pixel, class Sum>
__m512 pixel_of_sums(const Sum& sum) {
    if constexpr (Pixel == 0) return _mm512_add_ps(sum(0), sum(1));
    if constexpr (Pixel == 2) return _mm512_sub_ps(_mm512_sub_ps(sum(2), sum(1)), sum(3));
    return sum(Pixel == 1 ? 4 : 5);
}

template <std::size_t Row, class Value>
void store_row_of_sums(const float* const* sums, std::int64_t channel, Value* const* dx) {
    __m512 d[gradient_entries];
#pragma GCC unroll 6
    for (std::size_t column = 0; column < gradient_entries; ++column)
        d[column] = pixel_of_sums<Row>([&](std::size_t row) {
            return _mm512_loadu_ps(sums[row * gradient_entries + column] + channel);
        });
    const auto of = [&](std::size_t column) { return d[column]; };
    const auto store = [&](__m512 value, std::size_t pixel) {
        if (Value* const to = dx[Row * 4 + pixel]) store_values(value, to + channel);
    };
    store(pixel_of_sums<0>(of), 0);
    store(pixel_of_sums<1>(of), 1);
    store(pixel_of_sums<2>(of), 2);
    store(pixel_of_sums<3>(of), 3);
}

template <class Value>
void transform_gradient_sums(const float* const* sums, std::int64_t channels, Value* const* dx) {
    for (std::int64_t c = 0; c < channels; c += bf16_lanes) {
        store_row_of_sums<0>(sums, c, dx);
        store_row_of_sums<1>(sums, c, dx);
        store_row_of_sums<2>(sums, c, dx);
        store_row_of_sums<3>(sums, c, dx);
    }
}

}  // namespace

void transform_phase_pixels(const float* const* pixels, std::int64_t channels, Bf16Pair* const* to) {
    transform<OfPixels>(pixels, channels, to);
}
void transform_phase_gradients(const float* const* dy, std::int64_t channels, Bf16Pair* const* to) {
    transform<OfGradients>(dy, channels, to);
}
void transform_phase_sums(const float* const* sums, std::int64_t channels, const float* bias,
                          float* const* y) {
    transform_sums(sums, channels, bias, y);
}
void transform_phase_gradient_sums(const float* const* sums, std::int64_t channels, float* const* dx) {
    transform_gradient_sums(sums, channels, dx);
}
void transform_phase_pixel_pairs(const float* const* first, const float* const* second, std::int64_t channel,
                                 std::int64_t count, Bf16Pair* const* to) {
    transform_pairs<OfPixels>(first, second, channel, count, to);
}
void transform_phase_gradient_pairs(const float* const* first, const float* const* second,
                                    std::int64_t channel, std::int64_t count, Bf16Pair* const* to) {
    transform_pairs<OfGradients>(first, second, channel, count, to);
}

void transform_phase_pixels(const std::uint16_t* const* pixels, std::int64_t channels, Bf16Pair* const* to) {
    transform<OfPixels>(pixels, channels, to);
}
void transform_phase_gradients(const std::uint16_t* const* dy, std::int64_t channels, Bf16Pair* const* to) {
    transform<OfGradients>(dy, channels, to);
}
void transform_phase_sums(const float* const* sums, std::int64_t channels, const float* bias,
                          std::uint16_t* const* y) {
    transform_sums(sums, channels, bias, y);
}
void transform_phase_gradient_sums(const float* const* sums, std::int64_t channels,
                                   std::uint16_t* const* dx) {
    transform_gradient_sums(sums, channels, dx);
}
void transform_phase_pixel_pairs(const std::uint16_t* const* first, const std::uint16_t* const* second,
                                 std::int64_t channel, std::int64_t count, Bf16Pair* const* to) {
    transform_pairs<OfPixels>(first, second, channel, count, to);
}
void transform_phase_gradient_pairs(const std::uint16_t* const* first, const std::uint16_t* const* second,
                                    std::int64_t channel, std::int64_t count, Bf16Pair* const* to) {
    transform_pairs<OfGradients>(first, second, channel, count, to);
}

}  // namespace tutti
