#pragma once
// The transforms of F(2×2, 3×3)'s weight gradient (bf16_winograd_tile.hpp has those of its products and their
// source): dg = Gᵀ·[Σ over tiles of (A·dy·Aᵀ) ⊙ (Bᵀ·d·B)]·G for tiles d of 4×4 pixels of x and dy of 2×2.
// Here A's last row, (0, −1), and so G's, have the other sign, which saves turning signs in each tile. What
// is summed are tiles, so a pair is of two of them. For processors with has_bf16_tiles() only.

#include "bf16_winograd_tile.hpp"

namespace tutti {

/// to[p][count] = pairs of (Bᵀ·d·B)[p] of two tiles, product p `product_step` pairs behind the one before.
/// first, second: 4×4 pixels each, row by row, of which `count` channels (a multiple of bf16_lanes) from
/// `channel` on are taken, in fp32 or bf16.
void transform_winograd_pixel_pairs(const float* const* first, const float* const* second,
                                    std::int64_t channel, std::int64_t count, Bf16Pair* to,
                                    std::int64_t product_step);
void transform_winograd_pixel_pairs(const std::uint16_t* const* first, const std::uint16_t* const* second,
                                    std::int64_t channel, std::int64_t count, Bf16Pair* to,
                                    std::int64_t product_step);

/// The same of (A·dy·Aᵀ)[p] of two tiles of 2×2.
void transform_winograd_gradient_pairs(const float* const* first, const float* const* second,
                                       std::int64_t channel, std::int64_t count, Bf16Pair* to,
                                       std::int64_t product_step);
void transform_winograd_gradient_pairs(const std::uint16_t* const* first, const std::uint16_t* const* second,
                                       std::int64_t channel, std::int64_t count, Bf16Pair* to,
                                       std::int64_t product_step);

/// dweight[3×3][count] = Gᵀ·sums·G (G of `transform`) of `count` (a multiple of bf16_lanes) neighbouring
/// inputs of an output; sums of product p lie `product_step` behind those of the one before, places of the
/// window `in` apart.
void transform_winograd_gradient_sums(WindowTransform transform, const float* sums, std::int64_t product_step,
                                      std::int64_t count, float* dweight, std::int64_t in);

}  // namespace tutti
