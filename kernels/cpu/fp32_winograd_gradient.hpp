#pragma once
// Weight gradients of 3×3 convolutions in fp32 by Winograd's F(4×4, 3×3): 36 multiplications where the
// definition has 144.

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// For what takes_fp32_winograd() takes: dweight[O, 3, 3, I] = Σ over images and pixels of
/// dy[N, OH, OW, O]·x[N, H, W, I]; dbias[O] = the sum of dy, or null. The error (root of mean squares) is
/// about twice that of direct sums in fp32. The bits depend neither on the number of threads nor on
/// `workspace`.
void fp32_winograd_weight_gradient(const Conv2dShape& shape, std::int64_t batch, const float* x,
                                   const float* dy, float* dweight, float* dbias, Workspace& workspace);

}  // namespace tutti
