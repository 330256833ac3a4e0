#pragma once
// Flat operations on arenas and activations, each one launch. f32 or bf16 where not stated otherwise,
// arithmetic in fp32 with the CPU's bits; N elements, s bytes each.
//
// Floor at 4.3 TB/s, for 25.6 million elements (ResNet-50's gradients):
//   cast         N·(4 + 2) bytes between the types            36 µs
//   accumulate   N·(2 + 4 + 4) bytes, bf16 into fp32          60 µs
//   scale        N·8 bytes in fp32                            48 µs
//   lerp         N·12 bytes in fp32                           71 µs

#include "stream.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

/// y = x in y's type: to the nearest, ties to even.
void cast(const TensorView& x, const TensorView& y, Stream stream);

/// y += x, with y f32: what a backward pass in bf16 adds to the gradient arena.
void accumulate(const TensorView& x, const TensorView& y, Stream stream);

/// x *= factor, which is f64[1] in device memory (a clip coefficient is computed there) and rounded to fp32
/// once.
void scale(const TensorView& factor, const TensorView& x, Stream stream);

/// Ops::lerp: y moves towards x by weight·(x − y).
void lerp(double weight, const TensorView& x, const TensorView& y, Stream stream);

}  // namespace tutti::cuda
