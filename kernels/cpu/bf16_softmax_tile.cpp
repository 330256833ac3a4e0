#include "bf16_softmax_tile.hpp"

#include <immintrin.h>

#include <cstddef>

#include "bf16_interleave.hpp"

// As in bf16_tile.cpp, only what lies in the unnamed namespace may be inlined here.

namespace tutti {
namespace {

/// e^x for x ≤ 0; NaN stays NaN, and below −87 the result is e^−87.
__m512 exp_nonpositive(__m512 x) {
    const __m512 log2e = _mm512_set1_ps(1.44269504f), ln2 = _mm512_set1_ps(0.693147181f);
    x = _mm512_max_ps(_mm512_set1_ps(-87.0f), x);  // of NaN and a number the second operand
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, log2e), _MM_FROUND_TO_NEAREST_INT);
    const __m512 r = _mm512_fnmadd_ps(n, ln2, x);
    // Taylor's polynomial: for |r| ≤ ln(2)/2 the next term is below 2.5e-6.
    __m512 sum = _mm512_set1_ps(1.0f / 120);
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 24));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 6));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(0.5f));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(sum, n);
}

template <std::size_t Vectors>
struct Row {
    __m512 v[Vectors];
};
template <std::size_t Vectors>
Row<Vectors> load_row(const float* from) {
    Row<Vectors> row;
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) row.v[v] = _mm512_loadu_ps(from + v * bf16_lanes);
    return row;
}
template <std::size_t Vectors>
void store_rounded(const Row<Vectors>& row, std::uint16_t* to) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v + 1 < Vectors; v += 2)
        _mm512_storeu_si512(to + v * bf16_lanes,
                            reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(row.v[v + 1], row.v[v])));
    if constexpr (Vectors % 2 != 0)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (Vectors - 1) * bf16_lanes),
                            reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(row.v[Vectors - 1])));
}
template <std::size_t Vectors>
void store_pairs(const Row<Vectors>& first, const Row<Vectors>& second, Bf16Pair* to) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v)
        _mm512_storeu_si512(to + v * bf16_lanes, interleaved(first.v[v], second.v[v]));
}

/// scores = e^(scores − their column's maximum); returns 1 / Σ of them.
template <std::size_t Vectors>
Row<Vectors> exponentials(float* scores, std::int64_t keys) {
    constexpr std::int64_t columns = static_cast<std::int64_t>(Vectors) * bf16_lanes;
    Row<Vectors> maximum = load_row<Vectors>(scores), sum;
    for (std::int64_t k = 1; k < keys; ++k) {
        const Row<Vectors> row = load_row<Vectors>(scores + k * columns);
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) maximum.v[v] = _mm512_max_ps(maximum.v[v], row.v[v]);
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) sum.v[v] = _mm512_setzero_ps();
    for (std::int64_t k = 0; k < keys; ++k, scores += columns) {
        const Row<Vectors> row = load_row<Vectors>(scores);
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) {
            const __m512 power = exp_nonpositive(_mm512_sub_ps(row.v[v], maximum.v[v]));
            _mm512_storeu_ps(scores + v * bf16_lanes, power);
            sum.v[v] = _mm512_add_ps(sum.v[v], power);
        }
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) sum.v[v] = _mm512_div_ps(_mm512_set1_ps(1.0f), sum.v[v]);
    return sum;
}

template <std::size_t Vectors>
Row<Vectors> product(const Row<Vectors>& a, const Row<Vectors>& b) {
    Row<Vectors> result;
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) result.v[v] = _mm512_mul_ps(a.v[v], b.v[v]);
    return result;
}
template <std::size_t Vectors>
Row<Vectors> zeros() {
    Row<Vectors> result;
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v) result.v[v] = _mm512_setzero_ps();
    return result;
}

template <std::size_t Vectors>
void to_pairs(float* scores, std::int64_t keys, Bf16Pair* pairs) {
    constexpr std::int64_t columns = static_cast<std::int64_t>(Vectors) * bf16_lanes;
    const Row<Vectors> factor = exponentials<Vectors>(scores, keys);
    std::int64_t k = 0;
    for (; k + 1 < keys; k += 2, scores += 2 * columns, pairs += columns)
        store_pairs(product(factor, load_row<Vectors>(scores)),
                    product(factor, load_row<Vectors>(scores + columns)), pairs);
    if (k < keys) store_pairs(product(factor, load_row<Vectors>(scores)), zeros<Vectors>(), pairs);
}

template <std::size_t Vectors>
void to_rows(float* scores, std::int64_t keys, std::uint16_t* rounded) {
    constexpr std::int64_t columns = static_cast<std::int64_t>(Vectors) * bf16_lanes;
    const Row<Vectors> factor = exponentials<Vectors>(scores, keys);
    for (std::int64_t k = 0; k < keys; ++k, scores += columns, rounded += columns) {
        const Row<Vectors> row = product(factor, load_row<Vectors>(scores));
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) _mm512_storeu_ps(scores + v * bf16_lanes, row.v[v]);
        store_rounded(row, rounded);
    }
}

template <std::size_t Vectors>
void gradient(const float* p, const float* dp, std::int64_t keys, Bf16Pair* pairs, std::uint16_t* rounded) {
    constexpr std::int64_t columns = static_cast<std::int64_t>(Vectors) * bf16_lanes;
    Row<Vectors> sum = zeros<Vectors>();
    for (std::int64_t at = 0; at < keys * columns; at += columns)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v)
            sum.v[v] = _mm512_fmadd_ps(_mm512_loadu_ps(p + at + v * bf16_lanes),
                                       _mm512_loadu_ps(dp + at + v * bf16_lanes), sum.v[v]);
    const auto slopes = [&](std::int64_t key) {
        Row<Vectors> row = load_row<Vectors>(dp + key * columns);
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) row.v[v] = _mm512_sub_ps(row.v[v], sum.v[v]);
        row = product(load_row<Vectors>(p + key * columns), row);
        store_rounded(row, rounded + key * columns);
        return row;
    };
    std::int64_t k = 0;
    for (; k + 1 < keys; k += 2, pairs += columns) {
        const Row<Vectors> first = slopes(k);
        store_pairs(first, slopes(k + 1), pairs);
    }
    if (k < keys) store_pairs(slopes(k), zeros<Vectors>(), pairs);
}

/// Calls work.operator()<vectors of a row>().
template <class Work>
void with_vectors(std::int64_t columns, const Work& work) {
    switch (columns / bf16_lanes) {
        case 1:
            return work.template operator()<1>();
        case 2:
            return work.template operator()<2>();
        case 3:
            return work.template operator()<3>();
        default:
            return work.template operator()<4>();
    }
}

}  // namespace

void softmax_to_bf16_pairs(float* scores, std::int64_t keys, std::int64_t columns, Bf16Pair* pairs) {
    with_vectors(columns, [=]<std::size_t Vectors>() { to_pairs<Vectors>(scores, keys, pairs); });
}

void softmax_to_bf16_rows(float* scores, std::int64_t keys, std::int64_t columns, std::uint16_t* rounded) {
    with_vectors(columns, [=]<std::size_t Vectors>() { to_rows<Vectors>(scores, keys, rounded); });
}

void softmax_gradient_to_bf16(const float* p, const float* dp, std::int64_t keys, std::int64_t columns,
                              Bf16Pair* pairs, std::uint16_t* rounded) {
    with_vectors(columns, [=]<std::size_t Vectors>() { gradient<Vectors>(p, dp, keys, pairs, rounded); });
}

}  // namespace tutti
