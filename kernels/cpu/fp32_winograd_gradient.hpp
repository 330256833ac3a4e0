#pragma once
// Weight gradients of what fp32_winograd.hpp computes, by Winograd's F(4×4, 3×3) and as many multiplications.

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// For what takes_fp32_winograd() takes: dweight[O, KH, KW, I] = Σ over images and pixels of
/// dy[N, OH, OW, O]·x[N, H, W, I]; dbias[O] = the sum of dy, or null. The error (root of mean squares) is
/// about twice that of direct sums in fp32. The bits depend neither on the number of threads nor on
/// `workspace`.
void fp32_winograd_weight_gradient(const Conv2dShape& shape, std::int64_t batch, const float* x,
                                   const float* dy, float* dweight, float* dbias, Workspace& workspace);

}  // namespace tutti
