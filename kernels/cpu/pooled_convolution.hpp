#pragma once
// One image through a convolution and 2×2 max pooling, a pooling window at a time: what is inside a window
// stays in registers.

#include <cstdint>
#include <vector>

namespace tutti {

/// Images are given with their zero padding; channels are whole vectors. A tap is one element of the
/// convolution's window. Offsets are in elements of the padded image.
struct PooledConvolution {
    std::int64_t out_height = 0, out_width = 0, channels = 0;  ///< behind the pooling
    std::int64_t row_step = 0, column_step = 0;                ///< from one pooling window to the next
    std::int64_t places[4] = {};     ///< of the convolution's windows in a pooling window
    std::vector<std::int64_t> taps;  ///< in a convolution's window
    bool relu = false;
};

/// x: a padded image; weight[taps, channels]; bias[channels]. y[out_height, out_width, channels]; winner: the
/// same shape.
void pool_convolution(const PooledConvolution& p, const float* x, const float* weight, const float* bias,
                      float* y, unsigned char* winner);

/// Adds this image's part to dweight[taps, channels] and dbias[channels].
void add_pooled_gradients(const PooledConvolution& p, const float* x, const float* dy,
                          const unsigned char* winner, float* dweight, float* dbias);

}  // namespace tutti
