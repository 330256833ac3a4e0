#pragma once
// The inner loops of products in bf16 by the processor's own instructions (Intel SDM, VDPBF16PS: two products
// of neighbours are added to a sum in fp32; denormal numbers count as 0). Compiled for AVX-512 with BF16
// whatever the rest is compiled for, so this header is all that the two share.

#include <cstdint>

namespace tutti {

/// Whether this processor has the instructions. Without them the functions below must not be called.
bool has_bf16_tiles();

/// Two neighbours along the summed dimension, rounded to bf16: the first in the lower half.
using Bf16Pair = std::uint32_t;

/// Vectors of fp32 sums in a block, and their lanes.
inline constexpr std::int64_t bf16_lanes = 16, most_bf16_vectors = 4;

/// pairs[i] = {first[i], second[i]}; a row that is null is zeros. Rounds to the nearest, ties to even.
void make_bf16_pairs(const float* first, const float* second, std::int64_t count, Bf16Pair* pairs);

/// What else becomes of rows while their pairs are made; null where nothing does.
struct RoundedRows {
    std::uint16_t* first = nullptr;  ///< in bf16, where `second` is, as far from `first` as in fp32
    float* sums = nullptr;           ///< += first + second, row after row, before rounding
};
/// So many times, each with rows `step` elements (in fp32 and in bf16) and pairs `count` behind those before;
/// only `second` may be null.
void make_bf16_pairs(const float* first, const float* second, std::int64_t count, std::int64_t times,
                     std::int64_t step, Bf16Pair* pairs, const RoundedRows& rounded = {});

/// Rows of whole slabs of `slab` numbers (48 or 64) side by side, whose pairs lie `slab_step` apart: all
/// slabs of a row before the next row, so that memory is read as it lies.
void make_bf16_pairs_in_slabs(const float* first, const float* second, std::int64_t slab, std::int64_t slabs,
                              std::int64_t times, std::int64_t step, Bf16Pair* pairs, std::int64_t slab_step,
                              const RoundedRows& rounded = {});

/// to[rows, count] = from, in bf16; rows of from begin `step` elements apart.
void round_to_bf16(const float* from, std::int64_t step, std::int64_t rows, std::int64_t count,
                   std::uint16_t* to);

/// to[pair][bf16_lanes rows] = factor · the pairs of neighbours in `there` rows of `count` numbers (a
/// multiple of bf16_lanes), and zeros for the rows beyond, of at most bf16_lanes; rows begin `step` elements
/// apart in fp32, pairs `pair_step` after one another.
void transpose_bf16_pairs(const float* from, std::int64_t step, std::int64_t there, std::int64_t count,
                          float factor, Bf16Pair* to, std::int64_t pair_step);

/// Where the summed pairs lie: `runs` times `length` steps. A run begins `left_run` and `right_run` pairs
/// after the one before it, and a step goes on by `left_step` and `right_step`. The left factors of one step
/// lie `left_row` apart.
struct PairRuns {
    std::int64_t runs, length;
    std::int64_t left_run, right_run;
    std::int64_t left_step, right_step;
    std::int64_t left_row = 1;
};
/// Memory that will be read or written next: products bring it into the second-level cache meanwhile, a line
/// of 64 bytes a step, range after range. What they have brought they take off.
struct MemoryAhead {
    struct Range {
        const void* next = nullptr;
        std::int64_t lines = 0;
    };
    Range ranges[3];
};

/// Where sums go: c[rows, columns], whose rows begin `c_row` elements apart.
struct PairSums {
    float* c;
    std::int64_t c_row;
    bool add = false;              ///< to what is in c; else c is overwritten
    const float* start = nullptr;  ///< [columns] that each row's sums begin from; null: from 0
    MemoryAhead* ahead = nullptr;
};
/// c[rows, columns] = start + Σ over steps of left[row]·right[column]. `columns` is a multiple of bf16_lanes,
/// at most bf16_lanes · most_bf16_vectors. Each element is summed in the order of the steps.
void multiply_bf16_pairs(std::int64_t rows, std::int64_t columns, const PairRuns& runs, const Bf16Pair* left,
                         const Bf16Pair* right, const PairSums& to);

}  // namespace tutti
