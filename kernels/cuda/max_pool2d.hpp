#pragma once
// Max pooling, as Ops::max_pool2d_*: x[N, H, W, C] -> y[N, OH, OW, C] and winner (u8, y's shape), the
// winner's place in its window. x and y, or dy and dx: f32 or bf16. The CPU's bits: backward sums in fp32 in
// the order of the output places, and rounds once. One launch each, without atomics: a thread gathers what
// the windows over its pixel say, or for windows of 3 × 3 with stride 2 over its 2 × 2 pixels.
//
// Moves: x in, y and winner out: N·C·(H·W·s + OH·OW·(s + 1)) bytes, s = 4 or 2, and backward the same with dy
// in, dx out. (Neighbouring windows share rows, which the second-level cache holds.)
// Floor at 4.3 TB/s: ResNet-50's pool (256·112·112·64 to 56·56, 3×3, stride 2) in bf16: 131 µs either way.

#include "stream.hpp"
#include "tutti/device/ops.hpp"

namespace tutti::cuda {

void max_pool2d_forward(const Pool2dShape& shape, const TensorView& x, const TensorView& y,
                        const TensorView& winner, Stream stream);
void max_pool2d_backward(const Pool2dShape& shape, const TensorView& dy, const TensorView& winner,
                         const TensorView& dx, Stream stream);

}  // namespace tutti::cuda
