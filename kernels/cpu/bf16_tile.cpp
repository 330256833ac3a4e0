#include "bf16_tile.hpp"

#include <immintrin.h>

#include <cstddef>

#include "amx_products.hpp"

// Only what lies in the unnamed namespace may be inlined here: the linker might take this file's copy of a
// shared inline function for processors that cannot run it.

namespace tutti {
namespace {

/// The next range's address and step for so many steps.
void take_ahead(MemoryAhead& ahead, std::int64_t steps, const char*& at, std::int64_t& step) {
    constexpr std::int64_t line = 64;
    for (MemoryAhead::Range& range : ahead.ranges) {
        if (range.lines <= 0) continue;
        at = static_cast<const char*>(range.next);
        step = line;
        range.next = at + steps * line;
        range.lines -= steps;
        return;
    }
}

/// Rows × Vectors sums and the vectors of one step fit into the 32 registers, and so many sums keep both
/// units busy, which each begin a new one while those before are not ready.
template <std::size_t Rows, std::size_t Vectors, bool Neighbours>
void multiply_block(const PairRuns& runs, const Bf16Pair* left, const Bf16Pair* right, const PairSums& to) {
    // Where nothing is ahead, a line that is here anyway: cheaper than a branch.
    const auto* ahead = reinterpret_cast<const char*>(left);
    std::int64_t ahead_step = 0;
    if (to.ahead) take_ahead(*to.ahead, runs.runs * runs.length, ahead, ahead_step);
    const auto factor_at = [row = runs.left_row](std::size_t r) {
        return Neighbours ? static_cast<std::int64_t>(r) : static_cast<std::int64_t>(r) * row;
    };
    __m512 sums[Rows][Vectors];
#pragma GCC unroll 12
    for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v)
            sums[r][v] = to.start ? _mm512_loadu_ps(to.start + v * bf16_lanes) : _mm512_setzero_ps();
    for (std::int64_t run = 0; run < runs.runs; ++run) {
        const Bf16Pair* a = left + run * runs.left_run;
        const Bf16Pair* b = right + run * runs.right_run;
        for (std::int64_t k = 0; k < runs.length; ++k, a += runs.left_step, b += runs.right_step) {
            _mm_prefetch(ahead, _MM_HINT_T1);
            ahead += ahead_step;
            __m512bh factors[Vectors];
#pragma GCC unroll 4
            for (std::size_t v = 0; v < Vectors; ++v)
                factors[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + v * bf16_lanes));
#pragma GCC unroll 12
            for (std::size_t r = 0; r < Rows; ++r) {
                const auto factor =
                    reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[factor_at(r)])));
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
            float* const c = to.c + static_cast<std::int64_t>(r) * to.c_row + v * bf16_lanes;
            _mm512_storeu_ps(c, to.add ? _mm512_add_ps(_mm512_loadu_ps(c), sums[r][v]) : sums[r][v]);
        }
}

/// `rows` are dealt to as few blocks as their height allows, which differ by at most one row.
template <std::size_t Rows, std::size_t Vectors, bool Neighbours>
void multiply_blocks(std::int64_t rows, std::int64_t blocks, const PairRuns& runs, const Bf16Pair* left,
                     const Bf16Pair* right, PairSums to) {
    constexpr auto height = static_cast<std::int64_t>(Rows);
    for (; blocks > 0 && (rows + blocks - 1) / blocks == height;
         rows -= height, --blocks, left += height * (Neighbours ? 1 : runs.left_row),
         to.c += height * to.c_row)
        multiply_block<Rows, Vectors, Neighbours>(runs, left, right, to);
    if constexpr (Rows > 1)
        if (blocks > 0) multiply_blocks<Rows - 1, Vectors, Neighbours>(rows, blocks, runs, left, right, to);
}

template <bool Neighbours>
void multiply(std::int64_t rows, std::int64_t columns, const PairRuns& runs, const Bf16Pair* left,
              const Bf16Pair* right, const PairSums& to) {
    constexpr std::int64_t wide = 6, narrow = 12;
    const std::int64_t wide_blocks = (rows + wide - 1) / wide, narrow_blocks = (rows + narrow - 1) / narrow;
    switch (columns / bf16_lanes) {
        case 1:
            return multiply_blocks<12, 1, Neighbours>(rows, narrow_blocks, runs, left, right, to);
        case 2:
            return multiply_blocks<12, 2, Neighbours>(rows, narrow_blocks, runs, left, right, to);
        case 3:
            return multiply_blocks<6, 3, Neighbours>(rows, wide_blocks, runs, left, right, to);
        default:
            return multiply_blocks<6, 4, Neighbours>(rows, wide_blocks, runs, left, right, to);
    }
}

}  // namespace

bool has_bf16_tiles() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
}

void multiply_bf16_pairs(std::int64_t rows, std::int64_t columns, const PairRuns& runs, const Bf16Pair* left,
                         const Bf16Pair* right, const PairSums& to) {
    if (has_amx_products())
        multiply_amx_pairs(rows, columns, runs, left, right, to);
    else if (runs.left_row == 1)
        multiply<true>(rows, columns, runs, left, right, to);
    else
        multiply<false>(rows, columns, runs, left, right, to);
}

}  // namespace tutti
