#pragma once
// Batch normalisation on the GPU, with addition and ReLU fused into it. The views are those of
// include/tutti/device/batch_norm_op.hpp, where each step's meaning is: x, dy, y, residual [rows, C] in f32
// or bf16 (all the same), moments, normalizer, statistics and sums f64, parameters f32[C].
//
// Moves, with B = rows · C · (4 or 2) bytes; floor at 4.3 TB/s for 256 images of ResNet-50's first stage in
// bf16 (802816 x 64: B = 103 MB, 24 µs):
//   moments 1 B (24 µs); forward 2 B (48 µs), with addition 3 B (72 µs); backward_sums 2 B (48 µs), with ReLU
//   3 B; backward 3 B (72 µs), with ReLU 4 B, with the residual's gradient 5 B. The rest is a few numbers per
//   channel.

#include "stream.hpp"
#include "tutti/device/batch_norm_op.hpp"

namespace tutti::cuda {

/// Doubles of workspace for the two kinds of sums.
std::int64_t batch_norm_workspace(const TensorView& x, std::int64_t channels);

void batch_norm_moments(const TensorView& x, const TensorView& shift, const TensorView& workspace,
                        const TensorView& moments, Stream stream);
void batch_norm_normalizer(const BatchNormShape& shape, const TensorView& moments, const TensorView& shift,
                           const TensorView& normalizer, const TensorView& statistics, Stream stream);
void batch_norm_running_normalizer(const BatchNormShape& shape, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& normalizer,
                                   Stream stream);
void batch_norm_track(const BatchNormShape& shape, const TensorView& statistics,
                      const TensorView& running_mean, const TensorView& running_var,
                      const TensorView& batches, Stream stream);

/// What follows the normalisation in the same pass.
struct BatchNormFusion {
    TensorView residual;  ///< added, when defined
    bool relu = false;
};
/// y = relu(x̂·weight + bias + residual). y may be x or residual.
void batch_norm_forward(const TensorView& x, const TensorView& normalizer, const TensorView& weight,
                        const TensorView& bias, const BatchNormFusion& fusion, const TensorView& y,
                        Stream stream);

/// With ReLU `y` is the forward's result, and g = y > 0 ? dy : 0 (dy where y is NaN) takes dy's place;
/// without, y is undefined and g = dy.
void batch_norm_backward_sums(const TensorView& x, const TensorView& dy, const TensorView& y,
                              const TensorView& normalizer, const TensorView& workspace,
                              const TensorView& sums, const TensorView& dweight, const TensorView& dbias,
                              Stream stream);
/// dresidual = g, when defined. dx may be dy, and so may dresidual.
void batch_norm_backward(const TensorView& x, const TensorView& dy, const TensorView& y,
                         const TensorView& normalizer, const TensorView& weight, const TensorView& sums,
                         const TensorView& dx, const TensorView& dresidual, Stream stream);

}  // namespace tutti::cuda
