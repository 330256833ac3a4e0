#pragma once
// Batch normalisation on the GPU, with addition and ReLU fused into it. The views are those of
// include/tutti/device/batch_norm_op.hpp, where each step's meaning is: x, dy, y, residual [rows, C] in f32
// or bf16 (all the same), moments, normalizer, statistics and sums f64, parameters f32[C].
//
// Moves, with B = rows · C · (4 or 2) bytes; floor at 4.3 TB/s for 256 images of ResNet-50's first stage in
// bf16 (802816 x 64: B = 103 MB, 24 µs):
//   moments 1 B (24 µs); forward 2 B (48 µs), also with ReLU, with addition 3 B (72 µs); backward_sums 2 B
//   (48 µs), also with a ReLU that is computed again, 3 B with one seen in y, 1 B more where it writes g;
//   backward 3 B (72 µs), also with a ReLU computed again. The rest is a few numbers per channel. So a ReLU
//   fused forward and backward costs nothing, where passes of its own moved 2 B and 3 B. Behind an addition
//   g, written by the sums, is the residual's gradient, and backward reads it in place of dy and y: 7 B,
//   where 8 B would have both read dy and y.

#include "stream.hpp"
#include "tutti/device/batch_norm_op.hpp"

namespace tutti::cuda {

/// Doubles of workspace for the two kinds of sums.
std::int64_t batch_norm_workspace(const TensorView& x, std::int64_t channels);

void batch_norm_moments(const TensorView& x, const TensorView& shift, const TensorView& workspace,
                        const TensorView& moments, Stream stream);
void batch_norm_normalizer(const BatchNormShape& shape, const TensorView& moments, const TensorView& shift,
                           const TensorView& normalizer, const TensorView& statistics, Stream stream);
/// The two in one launch less, with the same bits.
void batch_norm_normalizer_of_batch(const BatchNormShape& shape, const TensorView& x, const TensorView& shift,
                                    const TensorView& workspace, const TensorView& normalizer,
                                    const TensorView& statistics, Stream stream);
void batch_norm_running_normalizer(const BatchNormShape& shape, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& normalizer,
                                   Stream stream);

/// What follows the normalisation in the same pass.
struct BatchNormFusion {
    TensorView residual;  ///< added, when defined
    bool relu = false;
};
/// y = relu(x̂·weight + bias + residual). y may be x or residual.
void batch_norm_forward(const TensorView& x, const TensorView& normalizer, const TensorView& weight,
                        const TensorView& bias, const BatchNormFusion& fusion, const TensorView& y,
                        Stream stream);

/// A ReLU behind the normalisation, in backward: g takes dy's place, dy where it let the value pass (or the
/// value is NaN), 0 elsewhere. Where `y` is defined, the forward's result says so: also of a sum with a
/// residual. Where weight and bias are, x̂·weight + bias is computed again with the forward's bits, which
/// saves reading y. Neither: no ReLU, and g = dy.
struct BatchNormRelu {
    TensorView y = {};
    TensorView weight = {}, bias = {};
};
/// `g` is written when defined, but not with a ReLU computed again; it may be dy.
void batch_norm_backward_sums(const TensorView& x, const TensorView& dy, const BatchNormRelu& relu,
                              const TensorView& normalizer, const TensorView& g, const TensorView& workspace,
                              const TensorView& sums, const TensorView& dweight, const TensorView& dbias,
                              Stream stream);
/// Without a ReLU seen in y: where there was one, the sums have written g, and dy is that. dx may be dy.
void batch_norm_backward(const TensorView& x, const TensorView& dy, const BatchNormRelu& relu,
                         const TensorView& normalizer, const TensorView& weight, const TensorView& sums,
                         const TensorView& dx, Stream stream);

}  // namespace tutti::cuda
