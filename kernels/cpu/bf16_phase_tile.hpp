#pragma once
// Transforms of 3×3 convolutions that move by 2. Along one axis, with the window's places (w0, w1, w2) and of
// the pixels, from the window's first on, the even ones u and the odd ones v,
//
//   y[k] = w0·u[k] + w2·u[k + 1] + w1·v[k].
//
// The first two are a convolution of two places that moves by 1, for which F(2, 2) (Winograd, "Arithmetic
// Complexity of Computations", 1980, the points 0, 1 and ∞) needs three products for two neighbouring y:
//
//   (u0 − u1)·w0,  u1·(w0 + w2),  (u2 − u1)·w2,  and v0·w1, v1·w1:
//   y0 = their first + second + fourth, y1 = second + third + fifth.
//
// So a tile of 2×2 outputs takes 5×5 entries, of products with the 4×4 numbers (w0, w0 + w2, w2, w1) ⊗ the
// same, where the definition has 36. Gradients are the transposed procedure. Transforms compute in fp32 and
// round once, to the pairs that bf16_tile.hpp multiplies. For processors with has_bf16_tiles() only.

#include "bf16_winograd_tile.hpp"

namespace tutti {

/// Entries of a tile along one axis, in the order above.
inline constexpr std::int64_t phase_entries = 5;

/// to[e] = the channels of entry e of 5×5, a null one is left out. pixels: 5×5 of x from the tile's first on,
/// row by row, each `channels` (a multiple of bf16_lanes) numbers, in fp32 or bf16.
void transform_phase_pixels(const float* const* pixels, std::int64_t channels, Bf16Pair* const* to);
void transform_phase_pixels(const std::uint16_t* const* pixels, std::int64_t channels, Bf16Pair* const* to);

/// y[2×2] = what these 5×5 sums make, + bias (null: none); a pixel that is null is left out. y: fp32, or
/// rounded to bf16. All sums point to memory, those that a pixel left out would need to anything.
void transform_phase_sums(const float* const* sums, std::int64_t channels, const float* bias,
                          float* const* y);
void transform_phase_sums(const float* const* sums, std::int64_t channels, const float* bias,
                          std::uint16_t* const* y);

/// As transform_phase_pixels, of the gradients of 2×2 outputs.
void transform_phase_gradients(const float* const* dy, std::int64_t channels, Bf16Pair* const* to);
void transform_phase_gradients(const std::uint16_t* const* dy, std::int64_t channels, Bf16Pair* const* to);

/// What weight gradients multiply: to[e][count] = pairs of entry e of two images, of which `count` channels
/// (a multiple of bf16_lanes) from `channel` on are taken.
void transform_phase_pixel_pairs(const float* const* first, const float* const* second, std::int64_t channel,
                                 std::int64_t count, Bf16Pair* const* to);
void transform_phase_pixel_pairs(const std::uint16_t* const* first, const std::uint16_t* const* second,
                                 std::int64_t channel, std::int64_t count, Bf16Pair* const* to);
void transform_phase_gradient_pairs(const float* const* first, const float* const* second,
                                    std::int64_t channel, std::int64_t count, Bf16Pair* const* to);
void transform_phase_gradient_pairs(const std::uint16_t* const* first, const std::uint16_t* const* second,
                                    std::int64_t channel, std::int64_t count, Bf16Pair* const* to);

/// Of the sums of gradients along an axis: the third entry of the tile before, and this one's five.
inline constexpr std::int64_t phase_gradient_entries = 6;

/// dx[4×4] (u, v, u, v along each axis, from the tile's first pixel on) = what these 6×6 sums make; a pixel
/// that is null is left out. What there is not points to zeros.
void transform_phase_gradient_sums(const float* const* sums, std::int64_t channels, float* const* dx);
void transform_phase_gradient_sums(const float* const* sums, std::int64_t channels, std::uint16_t* const* dx);

}  // namespace tutti
