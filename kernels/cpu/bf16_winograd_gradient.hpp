#pragma once
// Weight gradients of 3×3 convolutions in bf16 by Winograd's F(2×2, 3×3): 16 multiplications where the
// definition has 36.

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// Whether this is faster than bf16_weight_gradient.hpp, which computes the same: for what
/// takes_bf16_winograd() takes, where tiles of 2×2 pixels save enough products to pay for the transforms. A
/// pure function of shape, batch and processor.
bool takes_bf16_winograd_gradient(const Conv2dShape& shape, std::int64_t batch);

/// dweight[O, 3, 3, I] = Σ over images and pixels of dy[N, OH, OW, O]·x[N, H, W, I]; x and dy are both
/// fp32 or bf16 (float or std::uint16_t), the rest fp32. What is rounded to bf16 are transformed
/// tiles of x and of dy, once each; sums and transforms are fp32. dbias[O] = the sum of dy, or null. The bits
/// depend neither on the number of threads nor on `workspace`.
template <class Value>
void bf16_winograd_weight_gradient(const Conv2dShape& shape, std::int64_t batch, const Value* x,
                                   const Value* dy, float* dweight, float* dbias, Workspace& workspace);

}  // namespace tutti
