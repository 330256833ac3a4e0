#pragma once
// The transforms of Winograd's F(4×4, 3×3) in fp32 (A. Lavin, S. Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015): y = Aᵀ·[(G·g·Gᵀ) ⊙ (Bᵀ·d·B)]·A for a tile y of 4×4 pixels, d of 6×6 and a window g
// of 3×3; and of its weight gradient, dg = Gᵀ·[Σ over tiles of (A·dy·Aᵀ) ⊙ (Bᵀ·d·B)]·G. The points of
// interpolation are 0, ±5/8, ±3/2 and ∞: with 0, ±1, ±2 and ∞ errors are twice as large. Each is computed for
// whole vectors of channels, which are neighbours in memory.

#include <cstdint>

namespace tutti {

/// The numbers of a transformed tile, each of which is a factor of a matrix product of its own; a tile's
/// length in d, and in y.
inline constexpr std::int64_t fp32_winograd_products = 36, fp32_winograd_input = 6, fp32_winograd_output = 4;

/// to[p][count] = (Bᵀ·d·B)[p] of 6×6 pixels, given row by row, of which `count` channels from `channel` on
/// are taken; product p `product_step` elements behind the one before.
void transform_fp32_winograd_pixels(const float* const* pixels, std::int64_t channel, std::int64_t count,
                                    float* to, std::int64_t product_step);

/// 4×4 pixels of so many channels = Aᵀ·sums·A + bias; pixels that are null are left out, bias may be.
void transform_fp32_winograd_sums(const float* sums, std::int64_t product_step, std::int64_t channels,
                                  const float* bias, float* const* pixels);

/// to[p][count] = (G·g·Gᵀ)[p]; places of the window lie `place_step` apart, row by row.
void transform_fp32_winograd_windows(const float* places, std::int64_t place_step, std::int64_t count,
                                     float* to, std::int64_t product_step);

/// to[p][count] = (A·dy·Aᵀ)[p] of 4×4 pixels, likewise.
void transform_fp32_winograd_gradients(const float* const* pixels, std::int64_t channel, std::int64_t count,
                                       float* to, std::int64_t product_step);

/// places[3×3][count] = Gᵀ·sums·G; places lie `place_step` apart.
void transform_fp32_winograd_gradient_sums(const float* sums, std::int64_t product_step, std::int64_t count,
                                           float* places, std::int64_t place_step);

}  // namespace tutti
