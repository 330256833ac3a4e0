#pragma once
// Convolutions of 3×3 in fp32 by Winograd's F(4×4, 3×3), 36 multiplications where the definition has 144: for
// processors on which the library has none (oneDNN 2.6 has one for AVX-512 alone).

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// Whether forward and backward_data below compute this, and faster than a direct convolution: windows of 3×3
/// that move by 1, one group, whole vectors of channels and many of them, and images of which tiles of 4×4
/// do not go too far over the edge.
bool takes_fp32_winograd(const Conv2dShape& shape);

/// y[N, OH, OW, O] of x[N, H, W, I] and weight[O, 3, 3, I]. The error of y (root of mean squares) is about
/// twice that of direct sums in fp32. bias: [O] or null. The bits depend neither on the number of threads nor
/// on what shares the batch.
void fp32_winograd_forward(const Conv2dShape& shape, std::int64_t batch, const float* x, const float* weight,
                           const float* bias, float* y, Workspace& workspace);

/// dx[N, H, W, I] of dy[N, OH, OW, O], likewise.
void fp32_winograd_backward_data(const Conv2dShape& shape, std::int64_t batch, const float* weight,
                                 const float* dy, float* dx, Workspace& workspace);

}  // namespace tutti
