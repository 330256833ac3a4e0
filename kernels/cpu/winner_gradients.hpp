#pragma once
// The gradients of the weights through a convolution of 3×3 windows, of one image, behind which max pooling
// of 2×2 lets only those of its winners pass: at most one in four of the convolution's products.

#include <cstdint>

#include "tile_vector.hpp"

namespace tutti {

/// Of the convolution and the image with its zero padding; offsets in pixels of this. Input channels are
/// whole vectors.
struct WinnerGradients {
    std::int64_t in = 0, out = 0;                ///< channels
    std::int64_t windows_h = 0, windows_w = 0;   ///< of the pooling
    std::int64_t height = 0, width = 0;          ///< of the image, and its padding
    std::int64_t padding_h = 0, padding_w = 0;   ///< on each side
    std::int64_t row_step = 0, column_step = 0;  ///< from one pooling window to the next
    std::int64_t places[4] = {};                 ///< of the convolution's windows in a pooling window

    std::int64_t windows() const { return windows_h * windows_w; }
    /// From one row of the padded image to the next.
    std::int64_t row() const { return width + 2 * padding_w; }
    std::int64_t pixels() const { return (height + 2 * padding_h) * row(); }
};

/// Padded images lie in slices of a few channels, [pixels, channels of the slice] each, one slice after the
/// other: one slice at a time is worked on, and stays in the first cache. Slices are this wide, where not so
/// many channels are left a vector: for the weights' gradients two vectors where 9 sums of each fit into the
/// registers (32 with AVX-512, 16 before).
inline constexpr std::int64_t weight_slice = (vector_bytes == 64 ? 2 : 1) * lanes<float>;

/// sliced = image[height, width, in] with zeros around it, in slices of weight_slice; and image = of slices
/// of `wide` channels what lies inside the padding.
void slice_image(const WinnerGradients& p, const float* image, float* sliced);
void join_image(const WinnerGradients& p, std::int64_t wide, const float* sliced, float* image);

/// What passes of one output channel: `gradient` goes to the convolution's window at pixel `place`.
struct Winner {
    std::int32_t place;
    float gradient;
};

/// dy and winner: [windows, out]; winner 255 and so on: none. list[out, windows], of which count[out] are
/// filled; in the order of the windows.
void list_winners(const WinnerGradients& p, const float* dy, const unsigned char* winner, Winner* list,
                  std::int32_t* count);

/// Adds this image's part, of slices of weight_slice, to dweight[out, 3, 3, in] and dbias[out] (null: none).
void add_winner_gradients(const WinnerGradients& p, const float* image, const Winner* list,
                          const std::int32_t* count, float* dweight, float* dbias);

}  // namespace tutti
