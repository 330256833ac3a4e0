#pragma once
// Only for sources that are compiled for AVX-512 with BF16, each of which has its own copy: 16 numbers from
// and to memory, which holds them in fp32 or bf16.

#include <immintrin.h>

#include <cstdint>

namespace tutti {
namespace {

[[maybe_unused]] inline __m512 widened_values(__m256i bf16) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}

[[maybe_unused]] inline __m512 load_values(const float* from) {
    return _mm512_loadu_ps(from);
}
[[maybe_unused]] inline __m512 load_values(const std::uint16_t* from) {
    return widened_values(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

[[maybe_unused]] inline void store_values(__m512 values, float* to) {
    _mm512_storeu_ps(to, values);
}
/// To the nearest, ties to even.
[[maybe_unused]] inline void store_values(__m512 values, std::uint16_t* to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values)));
}

}  // namespace
}  // namespace tutti
