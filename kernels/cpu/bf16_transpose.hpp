#pragma once
// Only for sources that are compiled for AVX-512 with BF16, each of which has its own copy.

#include <immintrin.h>

#include <cstddef>

#include "bf16_tile.hpp"

namespace tutti {
namespace {

/// to[p] = {rows 0 to 15 of pair p}, `step` apart, of rows of 8 pairs.
void transpose_pairs(const __m256i (&rows)[bf16_lanes], Bf16Pair* to, std::int64_t step) {
    __m512i turned[2][4];
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
        __m512i z[4], of_two[4];
#pragma GCC unroll 4
        for (std::size_t j = 0; j < 4; ++j)
            z[j] = _mm512_inserti64x4(_mm512_castsi256_si512(rows[8 * half + j]), rows[8 * half + j + 4], 1);
        of_two[0] = _mm512_unpacklo_epi32(z[0], z[1]);
        of_two[1] = _mm512_unpackhi_epi32(z[0], z[1]);
        of_two[2] = _mm512_unpacklo_epi32(z[2], z[3]);
        of_two[3] = _mm512_unpackhi_epi32(z[2], z[3]);
        turned[half][0] = _mm512_unpacklo_epi64(of_two[0], of_two[2]);
        turned[half][1] = _mm512_unpackhi_epi64(of_two[0], of_two[2]);
        turned[half][2] = _mm512_unpacklo_epi64(of_two[1], of_two[3]);
        turned[half][3] = _mm512_unpackhi_epi64(of_two[1], of_two[3]);
    }
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) {
        const auto at = static_cast<std::int64_t>(j);
        _mm512_storeu_si512(to + at * step, _mm512_shuffle_i32x4(turned[0][j], turned[1][j], 0x88));
        _mm512_storeu_si512(to + (at + 4) * step, _mm512_shuffle_i32x4(turned[0][j], turned[1][j], 0xdd));
    }
}

}  // namespace
}  // namespace tutti
