#pragma once
// The gradients of one image through a convolution of 3×3 windows behind which max pooling of 2×2 lets only
// those of its winners pass: at most one in four of the convolution's products.

#include <cstdint>

namespace tutti {

/// Of the convolution and the image with its zero padding; offsets in elements of this. Input channels are
/// whole vectors.
struct WinnerGradients {
    std::int64_t in = 0, out = 0;                ///< channels
    std::int64_t windows_h = 0, windows_w = 0;   ///< of the pooling
    std::int64_t row = 0;                        ///< from one row of the image to the next
    std::int64_t row_step = 0, column_step = 0;  ///< from one pooling window to the next
    std::int64_t places[4] = {};                 ///< of the convolution's windows in a pooling window

    std::int64_t windows() const { return windows_h * windows_w; }
};

/// What passes of one output channel: `gradient` goes to the convolution's window at `place`.
struct Winner {
    std::int32_t place;
    float gradient;
};

/// dy and winner: [windows, out]; winner 255 and so on: none. list[out, windows], of which count[out] are
/// filled; in the order of the windows.
void list_winners(const WinnerGradients& p, const float* dy, const unsigned char* winner, Winner* list,
                  std::int32_t* count);

/// Adds this image's part to dweight[out, 3, 3, in] and dbias[out] (null: none).
void add_winner_gradients(const WinnerGradients& p, const float* image, const Winner* list,
                          const std::int32_t* count, float* dweight, float* dbias);

/// Adds to the gradient of the padded image; weight[out, 3, 3, in].
void add_winner_image_gradients(const WinnerGradients& p, const float* weight, const Winner* list,
                                const std::int32_t* count, float* image_gradient);

}  // namespace tutti
