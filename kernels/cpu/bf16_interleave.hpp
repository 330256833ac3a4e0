#pragma once
// Only for sources that are compiled for AVX-512 with BF16, each of which has its own copy.

#include <immintrin.h>

namespace tutti {
namespace {

/// From {first's 16, second's 16} to pairs.
inline __m512i interleave(__m512i rows) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                                           7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, rows);
}

/// Pairs of both, rounded to bf16.
[[maybe_unused]] inline __m512i interleaved(__m512 first, __m512 second) {
    return interleave(reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first)));
}

}  // namespace
}  // namespace tutti
