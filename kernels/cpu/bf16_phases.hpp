#pragma once
// Convolutions of 3×3 that move by 2, in bf16, with 25 multiplications for four outputs where the definition
// has 36 (bf16_phase_tile.hpp).

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// Whether this is the faster way: windows of 3×3 that move by 2, one group, whole vectors of channels and
/// many of them, and a processor with the instructions.
bool takes_bf16_phases(const Conv2dShape& shape);

/// y[N, OH, OW, O] of x[N, H, W, I] and weight[O, 3, 3, I], which is fp32; x and y are both fp32 or
/// bf16 (float or std::uint16_t). What is rounded to bf16 for the products are transformed pixels and
/// weights, once each; sums and transforms are fp32. The error of y (root of mean squares) is about 1.7 times
/// that of a direct convolution with both rounded, where the numbers are independent. bias: [O] or null. The
/// bits depend neither on the number of threads nor on what shares the batch.
template <class Value>
void bf16_phases_forward(const Conv2dShape& shape, std::int64_t batch, const Value* x, const float* weight,
                         const float* bias, Value* y, Workspace& workspace);

/// dx[N, H, W, I] of dy[N, OH, OW, O], rounded likewise.
template <class Value>
void bf16_phases_backward_data(const Conv2dShape& shape, std::int64_t batch, const float* weight,
                               const Value* dy, Value* dx, Workspace& workspace);

}  // namespace tutti
