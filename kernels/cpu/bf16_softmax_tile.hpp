#pragma once
// The softmax of a block of scores between products in bf16, and its gradient: column by column, in fp32,
// whose results leave the registers as the next products take them. For processors with has_bf16_tiles()
// only.

#include "bf16_tile.hpp"

namespace tutti {

// scores, p, dp: [keys, columns]; columns is a multiple of bf16_lanes, at most bf16_lanes ·
// most_bf16_vectors. The exponentials are within 2^-18 of themselves, a thousandth of what rounding to bf16
// leaves.

/// pairs[(keys + 1) / 2, columns] = softmax(scores), of neighbouring keys; an odd last one has zeros beside
/// it. Leaves something else in scores.
void softmax_to_bf16_pairs(float* scores, std::int64_t keys, std::int64_t columns, Bf16Pair* pairs);

/// scores = softmax(scores), and rounded[keys, columns] the same in bf16.
void softmax_to_bf16_rows(float* scores, std::int64_t keys, std::int64_t columns, std::uint16_t* rounded);

/// dscores = p ∘ (dp − Σ p·dp) in pairs of neighbouring keys, and in rows.
void softmax_gradient_to_bf16(const float* p, const float* dp, std::int64_t keys, std::int64_t columns,
                              Bf16Pair* pairs, std::uint16_t* rounded);

}  // namespace tutti
