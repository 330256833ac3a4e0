#pragma once
// The transforms of Winograd's F(2×2, 3×3) (Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2015): y = Aᵀ·[(G·g·Gᵀ) ⊙ (Bᵀ·d·B)]·A of tiles d of 4×4 pixels, of which the next begins 2
// pixels on, and windows g of 3×3. They compute in fp32 and round once, to the pairs that bf16_tile.hpp
// multiplies. For processors with has_bf16_tiles() only.

#include "bf16_tile.hpp"

namespace tutti {

/// Elements of a transformed tile or window, each a factor of one product.
inline constexpr std::int64_t winograd_products = 16;

/// to[p][pairs of neighbouring channels] = (Bᵀ·d·B)[p], product p `product_step` pairs behind the one before.
/// pixels: 4×4, row by row, each `channels` (a multiple of bf16_lanes) numbers, in fp32 or bf16.
void transform_winograd_pixels(const float* const* pixels, std::int64_t channels, Bf16Pair* to,
                               std::int64_t product_step);
void transform_winograd_pixels(const std::uint16_t* const* pixels, std::int64_t channels, Bf16Pair* to,
                               std::int64_t product_step);

/// y[2×2] = Aᵀ·sums·A + bias, for `channels` (a multiple of bf16_lanes) channels; sums of product p lie
/// `product_step` behind those of the one before. No bias where it is null; a pixel that is null is left out.
/// y: fp32, or rounded to bf16.
void transform_winograd_sums(const float* sums, std::int64_t product_step, std::int64_t channels,
                             const float* bias, float* const* y);
void transform_winograd_sums(const float* sums, std::int64_t product_step, std::int64_t channels,
                             const float* bias, std::uint16_t* const* y);

/// What becomes of a column of a window: F(2×2, 3×3)'s G, or that of bf16_phase_tile.hpp, which has as many
/// rows.
enum class WindowTransform { winograd, phases };

/// to[p][pairs of inputs][bf16_lanes outputs] = (G·g·Gᵀ)[p] of the windows of bf16_lanes outputs.
/// weight: [outputs, 3, 3, in]; in is a multiple of bf16_lanes. Pairs begin `pair_step` after one another.
void transform_winograd_weights(WindowTransform transform, const float* weight, std::int64_t in, Bf16Pair* to,
                                std::int64_t product_step, std::int64_t pair_step);

/// to[p][inputs] = (G·g·Gᵀ)[p] of windows, for WindowTransform::winograd turned around in both axes, pairs of
/// the outputs `first` and `second`. These: [3, 3, in], of which `count` inputs (a multiple of bf16_lanes)
/// are taken.
void transform_winograd_weight_pairs(WindowTransform transform, const float* first, const float* second,
                                     std::int64_t in, std::int64_t count, Bf16Pair* to,
                                     std::int64_t product_step);

}  // namespace tutti
