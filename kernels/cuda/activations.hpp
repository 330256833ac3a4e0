#pragma once
// ReLU and GELU in both forms, forward and backward, as Ops::relu_* and
// TransformerOps::gelu_*. All tensors f32 or all bf16, any shape; arithmetic in fp32 with the CPU's bits, but
// that of GELU in bf16 (fast_gelu.hpp). Each call is one launch in `stream`; an output may be an input.
//
// Moves: N elements of x (or of y and dy) in, N out: 2·N·s bytes forward, 3·N·s backward, s = 4 or 2.
// Floor at 4.3 TB/s: an MLP's hidden layer of ViT-B/16 in bf16 (64·197·3072 elements) 36 µs forward, 54 µs
// backward.

#include "stream.hpp"
#include "tutti/device/tensor_view.hpp"
#include "tutti/device/transformer_ops.hpp"

namespace tutti::cuda {

void relu_forward(const TensorView& x, const TensorView& y, Stream stream);
void relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx, Stream stream);

void gelu_forward(GeluForm form, const TensorView& x, const TensorView& y, Stream stream);
void gelu_backward(GeluForm form, const TensorView& x, const TensorView& dy, const TensorView& dx,
                   Stream stream);

/// y = max(a + b, 0), rounded once; y may be a or b. 3·N·s bytes, where a sum and a ReLU moved 5·N·s.
void sum_relu(const TensorView& a, const TensorView& b, const TensorView& y, Stream stream);
/// relu_backward to two places; da or db may be dy. 4·N·s bytes at most.
void sum_relu_backward(const TensorView& y, const TensorView& dy, const TensorView& da, const TensorView& db,
                       Stream stream);

}  // namespace tutti::cuda
