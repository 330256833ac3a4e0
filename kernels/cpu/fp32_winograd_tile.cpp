#include "fp32_winograd_tile.hpp"

#include <cstddef>

#include "tile_vector.hpp"

namespace tutti {
namespace {

using V = Vector<float>;

/// The points of interpolation and what the matrices make of them, exact in fp32 but for G's divisors.
constexpr float a = 0.625f, b = 1.5f, a2 = a * a, b2 = b * b, a3 = a2 * a, b3 = b2 * b;
constexpr float product = a2 * b2, sum = a2 + b2;
constexpr float divisor_0 = 1 / product, divisor_a = 1 / (2 * a2 * (a2 - b2)),
                divisor_b = 1 / (2 * b2 * (b2 - a2));

// Each is one matrix times a column.

struct TransformPixels {  // Bᵀ
    static constexpr std::size_t from = 6, to = 6;
    static void apply(const V (&d)[6], V (&t)[6]) {
        t[0] = product * d[0] - sum * d[2] + d[4];
        const V even_a = d[4] - b2 * d[2], odd_a = d[3] - b2 * d[1];
        t[1] = even_a + a * odd_a;
        t[2] = even_a - a * odd_a;
        const V even_b = d[4] - a2 * d[2], odd_b = d[3] - a2 * d[1];
        t[3] = even_b + b * odd_b;
        t[4] = even_b - b * odd_b;
        t[5] = product * d[1] - sum * d[3] + d[5];
    }
};

struct TransformSums {  // Aᵀ
    static constexpr std::size_t from = 6, to = 4;
    static void apply(const V (&m)[6], V (&y)[4]) {
        const V sum_a = m[1] + m[2], sum_b = m[3] + m[4], odd_a = m[1] - m[2], odd_b = m[3] - m[4];
        y[0] = m[0] + sum_a + sum_b;
        y[1] = a * odd_a + b * odd_b;
        y[2] = a2 * sum_a + b2 * sum_b;
        y[3] = a3 * odd_a + b3 * odd_b + m[5];
    }
};

struct TransformWindows {  // G
    static constexpr std::size_t from = 3, to = 6;
    static void apply(const V (&g)[3], V (&t)[6]) {
        t[0] = divisor_0 * g[0];
        const V even_a = divisor_a * g[0] + divisor_a * a2 * g[2], odd_a = divisor_a * a * g[1];
        t[1] = even_a + odd_a;
        t[2] = even_a - odd_a;
        const V even_b = divisor_b * g[0] + divisor_b * b2 * g[2], odd_b = divisor_b * b * g[1];
        t[3] = even_b + odd_b;
        t[4] = even_b - odd_b;
        t[5] = g[2];
    }
};

struct TransformGradients {  // A
    static constexpr std::size_t from = 4, to = 6;
    static void apply(const V (&y)[4], V (&t)[6]) {
        t[0] = y[0];
        const V even_a = y[0] + a2 * y[2], odd_a = a * y[1] + a3 * y[3];
        t[1] = even_a + odd_a;
        t[2] = even_a - odd_a;
        const V even_b = y[0] + b2 * y[2], odd_b = b * y[1] + b3 * y[3];
        t[3] = even_b + odd_b;
        t[4] = even_b - odd_b;
        t[5] = y[3];
    }
};

struct TransformGradientSums {  // Gᵀ
    static constexpr std::size_t from = 6, to = 3;
    static void apply(const V (&m)[6], V (&g)[3]) {
        const V sum_a = divisor_a * (m[1] + m[2]), sum_b = divisor_b * (m[3] + m[4]);
        g[0] = divisor_0 * m[0] + sum_a + sum_b;
        g[1] = divisor_a * a * (m[1] - m[2]) + divisor_b * b * (m[3] - m[4]);
        g[2] = a2 * sum_a + b2 * sum_b + m[5];
    }
};

/// read(row, column) and write(row, column, vector) of a square on both of whose sides the matrix is applied.
template <class Transform, class Read, class Write>
[[gnu::always_inline]] inline void transform_square(const Read& read, const Write& write) {
    V half[Transform::to][Transform::from];
#pragma GCC unroll 6
    for (std::size_t column = 0; column < Transform::from; ++column) {
        V in[Transform::from], out[Transform::to];
#pragma GCC unroll 6
        for (std::size_t row = 0; row < Transform::from; ++row) in[row] = read(row, column);
        Transform::apply(in, out);
#pragma GCC unroll 6
        for (std::size_t row = 0; row < Transform::to; ++row) half[row][column] = out[row];
    }
#pragma GCC unroll 6
    for (std::size_t row = 0; row < Transform::to; ++row) {
        V out[Transform::to];
        Transform::apply(half[row], out);
#pragma GCC unroll 6
        for (std::size_t column = 0; column < Transform::to; ++column) write(row, column, out[column]);
    }
}

/// Element (row, column) of a square whose sides are `size`, its elements `step` apart.
template <std::size_t size>
std::int64_t place(std::size_t row, std::size_t column, std::int64_t step) {
    return static_cast<std::int64_t>(row * size + column) * step;
}

}  // namespace

void transform_fp32_winograd_pixels(const float* const* pixels, std::int64_t channel, std::int64_t count,
                                    float* to, std::int64_t product_step) {
    for (std::int64_t c = 0; c < count; c += lanes<float>)
        transform_square<TransformPixels>(
            [&](std::size_t row, std::size_t column) { return load(pixels[row * 6 + column] + channel + c); },
            [&](std::size_t row, std::size_t column, const V& v) {
                store<float>(v, to + place<6>(row, column, product_step) + c);
            });
}

void transform_fp32_winograd_sums(const float* sums, std::int64_t product_step, std::int64_t channels,
                                  const float* bias, float* const* pixels) {
    for (std::int64_t c = 0; c < channels; c += lanes<float>) {
        const V added = bias ? load(bias + c) : V{};
        transform_square<TransformSums>(
            [&](std::size_t row, std::size_t column) {
                return load(sums + place<6>(row, column, product_step) + c);
            },
            [&](std::size_t row, std::size_t column, const V& v) {
                if (float* const pixel = pixels[row * 4 + column]) store<float>(v + added, pixel + c);
            });
    }
}

void transform_fp32_winograd_windows(const float* places, std::int64_t place_step, std::int64_t count,
                                     float* to, std::int64_t product_step) {
    for (std::int64_t c = 0; c < count; c += lanes<float>)
        transform_square<TransformWindows>(
            [&](std::size_t row, std::size_t column) {
                return load(places + place<3>(row, column, place_step) + c);
            },
            [&](std::size_t row, std::size_t column, const V& v) {
                store<float>(v, to + place<6>(row, column, product_step) + c);
            });
}

void transform_fp32_winograd_gradients(const float* const* pixels, std::int64_t channel, std::int64_t count,
                                       float* to, std::int64_t product_step) {
    for (std::int64_t c = 0; c < count; c += lanes<float>)
        transform_square<TransformGradients>(
            [&](std::size_t row, std::size_t column) { return load(pixels[row * 4 + column] + channel + c); },
            [&](std::size_t row, std::size_t column, const V& v) {
                store<float>(v, to + place<6>(row, column, product_step) + c);
            });
}

void transform_fp32_winograd_gradient_sums(const float* sums, std::int64_t product_step, std::int64_t count,
                                           float* places, std::int64_t place_step) {
    for (std::int64_t c = 0; c < count; c += lanes<float>)
        transform_square<TransformGradientSums>(
            [&](std::size_t row, std::size_t column) {
                return load(sums + place<6>(row, column, product_step) + c);
            },
            [&](std::size_t row, std::size_t column, const V& v) {
                store<float>(v, places + place<3>(row, column, place_step) + c);
            });
}

}  // namespace tutti
