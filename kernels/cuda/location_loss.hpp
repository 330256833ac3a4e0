#pragma once
// The loss of heat map and presence on the GPU: the contract of Ops (include/tutti/device/ops.hpp). outputs
// and doutputs [N, H, W, 2] in f32 or bf16, wanted f32[N, 3], differences f32[N, H, W, 2] whatever the
// outputs are.
//
// Moves, with L = N · H · W · 2 · (4 or 2) and F = N · H · W · 2 · 4 bytes: forward L + F, backward F + L.

#include "stream.hpp"
#include "tutti/device/location_loss.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

/// differences may be outputs (f32). workspace: f64[2·N].
void location_loss_forward(const TensorView& outputs, const TensorView& wanted, const TensorView& workspace,
                           const LocationLoss& loss, const TensorView& differences, const TensorView& sums,
                           Stream stream);

/// scale: f64[1], in the GPU's memory, so that a recorded step can change it. doutputs may be differences
/// (f32).
void location_loss_backward(const TensorView& differences, const TensorView& scale, const LocationLoss& loss,
                            const TensorView& doutputs, Stream stream);

}  // namespace tutti::cuda
