#pragma once
// Losses of regression on the GPU: the contract of Ops (include/tutti/device/ops.hpp). outputs and doutputs
// [N, K] in f32 or bf16, targets f32[N, K] or none, differences f32[N, K] whatever the outputs are, so that a
// target of many digits is not rounded.
//
// Moves, with L = N · K · (4 or 2) and F = N · K · 4 bytes: forward L + 2 F, backward F + L. Of 1024 x 2 that
// is nothing: the time is that of three launches.

#include "stream.hpp"
#include "tutti/device/regression_loss.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

/// differences may be outputs (f32). sums (f64[3]) = {Σ over rows of (1/K)·Σₖ l(d), N, 0}; workspace: f64[N].
void regression_loss_forward(const TensorView& outputs, const TensorView& targets,
                             const TensorView& workspace, RegressionLoss kind, const TensorView& differences,
                             const TensorView& sums, Stream stream);

/// doutputs = scale/K · l′(differences). scale: f64[1], in the GPU's memory, so that a recorded step can
/// change it. doutputs may be differences (f32).
void regression_loss_backward(const TensorView& differences, const TensorView& scale, RegressionLoss kind,
                              const TensorView& doutputs, Stream stream);

}  // namespace tutti::cuda
