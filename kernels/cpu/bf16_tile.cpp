#include "bf16_tile.hpp"

#include <immintrin.h>

#include <cstddef>

// Only what lies in the unnamed namespace may be inlined here: the linker might take this file's copy of a
// shared inline function for processors that cannot run it.

namespace tutti {
namespace {

/// From {first's 16, second's 16} to pairs.
__m512i interleave(__m512i rows) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                                           7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, rows);
}

template <bool HasFirst, bool HasSecond>
__m512i round_both(const float* first, const float* second, std::int64_t at, __mmask16 lanes) {
    const __m512 a = HasFirst ? _mm512_maskz_loadu_ps(lanes, first + at) : _mm512_setzero_ps();
    const __m512 b = HasSecond ? _mm512_maskz_loadu_ps(lanes, second + at) : _mm512_setzero_ps();
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a));
}

__mmask16 lanes_from(std::int64_t at, std::int64_t count) {
    return count - at >= bf16_lanes ? __mmask16(0xffff) : static_cast<__mmask16>((1u << (count - at)) - 1);
}

template <bool HasFirst, bool HasSecond>
void make_pairs(const float* first, const float* second, std::int64_t count, Bf16Pair* pairs) {
    std::int64_t at = 0;
    for (; at + bf16_lanes <= count; at += bf16_lanes)
        _mm512_storeu_si512(pairs + at,
                            interleave(round_both<HasFirst, HasSecond>(first, second, at, 0xffff)));
    if (at == count) return;
    const __mmask16 lanes = lanes_from(at, count);
    _mm512_mask_storeu_epi32(pairs + at, lanes,
                             interleave(round_both<HasFirst, HasSecond>(first, second, at, lanes)));
}

/// With what else becomes of the rows. Whole vectors are stored without a mask: masked stores of 16 bits take
/// tens of cycles.
template <bool HasSecond, bool Whole>
void make_pairs_and_more(const float* first, const float* second, std::int64_t at, __mmask16 lanes,
                         Bf16Pair* pairs, const RoundedRows& rounded) {
    const __m512i rows = round_both<true, HasSecond>(first, second, at, lanes);
    const __m256i low = _mm512_castsi512_si256(rows), high = _mm512_extracti64x4_epi64(rows, 1);
    if constexpr (Whole)
        _mm512_storeu_si512(pairs + at, interleave(rows));
    else
        _mm512_mask_storeu_epi32(pairs + at, lanes, interleave(rows));
    const auto store = [&](std::uint16_t* to, __m256i row) {
        if constexpr (Whole)
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at), row);
        else
            _mm256_mask_storeu_epi16(to + at, lanes, row);
    };
    if (rounded.first) {
        store(rounded.first, low);
        if constexpr (HasSecond) store(rounded.second, high);
    }
    if (!rounded.sums) return;
    __m512 sum = _mm512_maskz_loadu_ps(lanes, first + at);
    if constexpr (HasSecond) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(lanes, second + at));
    sum = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, rounded.sums + at), sum);
    if constexpr (Whole)
        _mm512_storeu_ps(rounded.sums + at, sum);
    else
        _mm512_mask_storeu_ps(rounded.sums + at, lanes, sum);
}

template <bool HasSecond>
void make_pairs_and_more(const float* first, const float* second, std::int64_t count, Bf16Pair* pairs,
                         const RoundedRows& rounded) {
    std::int64_t at = 0;
    for (; at + bf16_lanes <= count; at += bf16_lanes)
        make_pairs_and_more<HasSecond, true>(first, second, at, 0xffff, pairs, rounded);
    if (at < count)
        make_pairs_and_more<HasSecond, false>(first, second, at, lanes_from(at, count), pairs, rounded);
}

/// Rows × Vectors sums and the vectors of one step fit into the 32 registers, and so many sums keep both
/// units busy, which each begin a new one while those before are not ready.
template <std::size_t Rows, std::size_t Vectors>
void multiply_block(const PairRuns& runs, const Bf16Pair* left, const Bf16Pair* right, float* c,
                    std::int64_t c_row, bool add) {
    __m512 sums[Rows][Vectors];
#pragma GCC unroll 12
    for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] = _mm512_setzero_ps();
    for (std::int64_t run = 0; run < runs.runs; ++run) {
        const Bf16Pair* a = left + run * runs.left_run;
        const Bf16Pair* b = right + run * runs.right_run;
        for (std::int64_t k = 0; k < runs.length; ++k, a += runs.left_step, b += runs.right_step) {
            __m512bh factors[Vectors];
#pragma GCC unroll 4
            for (std::size_t v = 0; v < Vectors; ++v)
                factors[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + v * bf16_lanes));
#pragma GCC unroll 12
            for (std::size_t r = 0; r < Rows; ++r) {
                const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[r])));
#pragma GCC unroll 4
                for (std::size_t v = 0; v < Vectors; ++v)
                    sums[r][v] = _mm512_dpbf16_ps(sums[r][v], factor, factors[v]);
            }
        }
    }
#pragma GCC unroll 12
    for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) {
            float* const to = c + static_cast<std::int64_t>(r) * c_row + v * bf16_lanes;
            _mm512_storeu_ps(to, add ? _mm512_add_ps(_mm512_loadu_ps(to), sums[r][v]) : sums[r][v]);
        }
}

/// `rows` are dealt to as few blocks as their height allows, which differ by at most one row.
template <std::size_t Rows, std::size_t Vectors>
void multiply_blocks(std::int64_t rows, std::int64_t blocks, const PairRuns& runs, const Bf16Pair* left,
                     const Bf16Pair* right, float* c, std::int64_t c_row, bool add) {
    constexpr auto height = static_cast<std::int64_t>(Rows);
    for (; blocks > 0 && (rows + blocks - 1) / blocks == height;
         rows -= height, --blocks, left += height, c += height * c_row)
        multiply_block<Rows, Vectors>(runs, left, right, c, c_row, add);
    if constexpr (Rows > 1)
        if (blocks > 0) multiply_blocks<Rows - 1, Vectors>(rows, blocks, runs, left, right, c, c_row, add);
}

}  // namespace

bool has_bf16_tiles() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
}

void make_bf16_pairs(const float* first, const float* second, std::int64_t count, Bf16Pair* pairs) {
    if (first && second) return make_pairs<true, true>(first, second, count, pairs);
    if (first) return make_pairs<true, false>(first, second, count, pairs);
    if (second) return make_pairs<false, true>(first, second, count, pairs);
    make_pairs<false, false>(first, second, count, pairs);
}

void make_bf16_pairs(const float* first, const float* second, std::int64_t count, Bf16Pair* pairs,
                     const RoundedRows& rounded) {
    if (second) return make_pairs_and_more<true>(first, second, count, pairs, rounded);
    make_pairs_and_more<false>(first, second, count, pairs, rounded);
}

void multiply_bf16_pairs(std::int64_t rows, std::int64_t columns, const PairRuns& runs, const Bf16Pair* left,
                         const Bf16Pair* right, float* c, std::int64_t c_row, bool add) {
    constexpr std::int64_t wide = 6, narrow = 12;
    const std::int64_t wide_blocks = (rows + wide - 1) / wide, narrow_blocks = (rows + narrow - 1) / narrow;
    switch (columns / bf16_lanes) {
        case 1:
            return multiply_blocks<12, 1>(rows, narrow_blocks, runs, left, right, c, c_row, add);
        case 2:
            return multiply_blocks<12, 2>(rows, narrow_blocks, runs, left, right, c, c_row, add);
        case 3:
            return multiply_blocks<6, 3>(rows, wide_blocks, runs, left, right, c, c_row, add);
        default:
            return multiply_blocks<6, 4>(rows, wide_blocks, runs, left, right, c, c_row, add);
    }
}

}  // namespace tutti
