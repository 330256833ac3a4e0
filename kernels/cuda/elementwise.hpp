#pragma once
// Elementwise operations of the ops' contract that no other file has: Ops::fill, sum, swap and
// TransformerOps::scale_samples. f32 or bf16, arithmetic in fp32 with the CPU's bits; each one launch.
//
// Moves, for N elements of s bytes: fill N·s, sum 3·N·s, swap 4·N·s, scale_samples 2·N·s. Floor at 4.3 TB/s
// for 64·197·768 elements in fp32: 9, 27, 36, 18 µs.

#include "stream.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

void fill(const TensorView& x, double value, Stream stream);

/// y = a + b; y may be a or b.
void sum(const TensorView& a, const TensorView& b, const TensorView& y, Stream stream);

/// Exchanges the elements of x and y, which do not overlap.
void swap(const TensorView& x, const TensorView& y, Stream stream);

/// y[n] = factors[n]·x[n] for each sample; factors: f64[N] in device memory, rounded to fp32 once. y may be
/// x.
void scale_samples(const TensorView& x, const TensorView& factors, const TensorView& y, Stream stream);

}  // namespace tutti::cuda
