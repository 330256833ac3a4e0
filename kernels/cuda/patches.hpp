#pragma once
// Ops::extract_patches and join_patches. f32, bf16 or u8; the bits are moved as they are. One launch each;
// where a patch's rows are multiples of 16 bytes, in whole vectors.
//
// Moves: 2·N·s bytes for N elements, s = 4, 2 or 1. Floor at 4.3 TB/s: 64·224·224·3 in bf16 in 9 µs either
// way.

#include "stream.hpp"
#include "tutti/device/transformer_ops.hpp"

namespace tutti::cuda {

using tutti::PatchShape;

void extract_patches(const PatchShape& shape, const TensorView& x, const TensorView& tokens, Stream stream);
void join_patches(const PatchShape& shape, const TensorView& tokens, const TensorView& x, Stream stream);

}  // namespace tutti::cuda
