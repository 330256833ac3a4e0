#pragma once
// Convolutions of 3×3 in bf16 by Winograd's F(2×2, 3×3): 16 multiplications where the definition has 36.

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// Whether this is the faster way: windows of 3×3 that move by 1, one group, whole vectors of channels and
/// many of them, and a processor with the instructions.
bool takes_bf16_winograd(const Conv2dShape& shape);

/// y[N, OH, OW, O] of x[N, H, W, I] and weight[O, 3, 3, I], which is fp32; x and y are both fp32 or
/// bf16 (float or std::uint16_t). What is rounded to bf16 for the products are transformed tiles of x and
/// transformed windows of the weights, once each; sums and transforms are fp32. Rounding
/// sums of four pixels and of nine weights instead of the numbers themselves makes the error of y (root of
/// mean squares) about 1.9 times that of a direct convolution with both rounded where the numbers are
/// independent, and up to 3 times where the nine weights of a window are alike. bias: [O] or null. The bits
/// depend neither on the number of threads nor on what shares the batch.
template <class Value>
void bf16_winograd_forward(const Conv2dShape& shape, std::int64_t batch, const Value* x, const float* weight,
                           const float* bias, Value* y, Workspace& workspace);

/// dx[N, H, W, I] of dy[N, OH, OW, O], rounded likewise.
template <class Value>
void bf16_winograd_backward_data(const Conv2dShape& shape, std::int64_t batch, const float* weight,
                                 const Value* dy, Value* dx, Workspace& workspace);

}  // namespace tutti
