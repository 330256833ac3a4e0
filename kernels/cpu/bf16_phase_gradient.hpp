#pragma once
// Weight gradients of 3×3 convolutions that move by 2, in bf16, with 25 multiplications where the definition
// has 36.

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// dweight[O, 3, 3, I] = Σ over images and pixels of dy[N, OH, OW, O]·x[N, H, W, I] for what
/// takes_bf16_phases() takes; x and dy are both fp32 or bf16 (float or std::uint16_t), the rest fp32. What is
/// rounded to bf16 are transformed pixels and gradients, once each; sums and transforms are fp32. dbias[O] =
/// the sum of dy, or null. The bits depend neither on the number of threads nor on `workspace`.
template <class Value>
void bf16_phases_weight_gradient(const Conv2dShape& shape, std::int64_t batch, const Value* x,
                                 const Value* dy, float* dweight, float* dbias, Workspace& workspace);

}  // namespace tutti
