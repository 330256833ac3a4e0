#pragma once
// A bias per channel, alone or fused with the activation behind it, forward and backward: x[…, C], f32 or
// bf16, and bias f32[C]. Sums in fp32 before the activation, without a rounding between; GELU in bf16 as
// fast_gelu.hpp has it; one launch forward, two backward.
//
// Moves: forward 2·R·C·s bytes for R rows, s = 4 or 2; backward 3·R·C·s, or R·C·s for the bias alone.
// Floor at 4.3 TB/s: an MLP's hidden layer of ViT-B/16 in bf16 (64·197 rows of 3072) in 36 µs forward, 54 µs
// backward.

#include "stream.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

enum class BiasActivation { none, relu, gelu };

/// y = activation(x + bias). y may be x.
void bias_forward(BiasActivation activation, const TensorView& x, const TensorView& bias, const TensorView& y,
                  Stream stream);

/// Doubles of workspace for gradients of this shape.
std::int64_t bias_workspace(const TensorView& dy, std::int64_t channels);

/// dbias (f32[C]) = Σ over rows of the gradient before the activation, which dx gets: activation'(…)·dy.
/// `kept` is y for ReLU, x for GELU, undefined for none, for which dx, which is dy, is undefined, too. dx may
/// be dy. An undefined bias is in `kept` already. The sums' order depends on the shape alone; rows with
/// nothing in them give 0. workspace: f64[bias_workspace(dy, C)].
void bias_backward(BiasActivation activation, const TensorView& kept, const TensorView& bias,
                   const TensorView& dy, const TensorView& dx, const TensorView& dbias,
                   const TensorView& workspace, Stream stream);

}  // namespace tutti::cuda
