#pragma once
// The global norm's sum, with the bits of the CPU's Ops::sum_of_squares: blocks of 4096 elements, eight
// interleaved sums in each, and one binary tree. Independent of the GPU and of the grid.
//
// Moves: x once, N · (4 or 2) bytes, and 8 bytes per 4096 elements of workspace.
// Floor at 4.3 TB/s: 25.6 million fp32 gradients (ResNet-50) in 24 µs.

#include "stream.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

/// Doubles of workspace for `count` elements.
std::int64_t sum_of_squares_workspace(std::int64_t count);

/// sum (f64[1]) = Σ x². x: f32 or bf16, any shape; workspace: f64[sum_of_squares_workspace(count)].
void sum_of_squares(const TensorView& x, const TensorView& workspace, const TensorView& sum, Stream stream);

}  // namespace tutti::cuda
