#pragma once
// The operands of products in bf16 by the processor's own instructions: rounding and pairing. Only where
// bf16_tile.hpp has them.

#include <cstdint>

namespace tutti {

/// Two neighbours along the summed dimension, rounded to bf16: the first in the lower half.
using Bf16Pair = std::uint32_t;

/// Sums, and so pairs, in a vector.
inline constexpr std::int64_t bf16_lanes = 16;

/// pairs[i] = {first[i], second[i]}; a row that is null is zeros. Rounds to the nearest, ties to even.
void make_bf16_pairs(const float* first, const float* second, std::int64_t count, Bf16Pair* pairs);

/// The same of rows that are bf16.
void make_bf16_pairs(const std::uint16_t* first, const std::uint16_t* second, std::int64_t count,
                     Bf16Pair* pairs);

/// What else becomes of rows while their pairs are made; null where nothing does.
struct RoundedRows {
    std::uint16_t* first = nullptr;  ///< in bf16, where `second` is, as far from `first` as in fp32
    float* sums = nullptr;           ///< += first + second, row after row, before rounding
};
/// So many times, each with rows `step` elements (in fp32 and in bf16) and pairs `count` behind those before;
/// only `second` may be null.
void make_bf16_pairs(const float* first, const float* second, std::int64_t count, std::int64_t times,
                     std::int64_t step, Bf16Pair* pairs, const RoundedRows& rounded = {});
/// Rows that are bf16 are not rounded again: rounded.first is null.
void make_bf16_pairs(const std::uint16_t* first, const std::uint16_t* second, std::int64_t count,
                     std::int64_t times, std::int64_t step, Bf16Pair* pairs, const RoundedRows& rounded = {});

/// Rows of whole slabs of `slab` numbers (48 or 64) side by side, whose pairs lie `slab_step` apart: all
/// slabs of a row before the next row, so that memory is read as it lies.
void make_bf16_pairs_in_slabs(const float* first, const float* second, std::int64_t slab, std::int64_t slabs,
                              std::int64_t times, std::int64_t step, Bf16Pair* pairs, std::int64_t slab_step,
                              const RoundedRows& rounded = {});
void make_bf16_pairs_in_slabs(const std::uint16_t* first, const std::uint16_t* second, std::int64_t slab,
                              std::int64_t slabs, std::int64_t times, std::int64_t step, Bf16Pair* pairs,
                              std::int64_t slab_step, const RoundedRows& rounded = {});

/// to[count][times] = pairs of first and second, turned: one row of `to` for each of so many numbers,
/// `to_row` pairs apart. Both have `times` rows `step` elements apart; second may be null.
void turn_bf16_pairs(const float* first, const float* second, std::int64_t count, std::int64_t times,
                     std::int64_t step, Bf16Pair* to, std::int64_t to_row, const RoundedRows& rounded = {});

/// to[rows, count] = from, in bf16; rows of from begin `step` elements apart.
void round_to_bf16(const float* from, std::int64_t step, std::int64_t rows, std::int64_t count,
                   std::uint16_t* to);

/// to[pair][bf16_lanes rows] = factor · the pairs of neighbours in `there` rows of `count` numbers (a
/// multiple of bf16_lanes), and zeros for the rows beyond, of at most bf16_lanes; rows begin `step` elements
/// apart in fp32, pairs `pair_step` after one another.
void transpose_bf16_pairs(const float* from, std::int64_t step, std::int64_t there, std::int64_t count,
                          float factor, Bf16Pair* to, std::int64_t pair_step);

}  // namespace tutti
