#pragma once
// Average pooling (plain, adaptive, global), as AveragePool2dOp: x[N, H, W, C] -> y[N, OH, OW, C], f32 or
// bf16. The CPU's bits: sums in fp32 in its order, then one rounding. One launch each, without atomics.
//
// Moves: x in, y out: N·C·(H·W + OH·OW)·s bytes, s = 4 or 2; backward the same.
// Floor at 4.3 TB/s: ResNet-50's global pool (256·7·7·2048) in bf16: 12 µs either way.

#include <vector>

#include "stream.hpp"
#include "tutti/device/average_pool2d_op.hpp"

namespace tutti::cuda {

/// What the kernels read of the windows, to be copied once to the device, as i64[]: for each output row and
/// then column {begin, end, divisor}, for each input row and then column {first, end} of the windows that
/// hold it. Throws UsageError when windows do not begin and end in ascending order.
std::vector<std::int64_t> average_pool2d_table(const AveragePool2dShape& shape);

/// table: i64, what average_pool2d_table gave.
void average_pool2d_forward(const AveragePool2dShape& shape, const TensorView& table, const TensorView& x,
                            const TensorView& y, Stream stream);
void average_pool2d_backward(const AveragePool2dShape& shape, const TensorView& table, const TensorView& dy,
                             const TensorView& dx, Stream stream);

}  // namespace tutti::cuda
