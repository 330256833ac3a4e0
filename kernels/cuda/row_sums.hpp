#pragma once
// The sum of several ranks' gradients in bf16, where each rank has a row. One launch.
//
// Floor at 4.3 TB/s: (R + 1)·N·2 bytes for R ranks; of 25.6 million elements that 8 ranks share, 13 µs.

#include "stream.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

/// rows: bf16 [R, N]; sum: bf16 [N], which may be one of the rows. ((x₀ + x₁) + x₂) + … in fp32, rounded
/// once: the bits of the CPU's sums (comm/compression.hpp).
void add_rows(const TensorView& rows, const TensorView& sum, Stream stream);

}  // namespace tutti::cuda
