#pragma once
// The loss of segments on the GPU: the contract of SequenceOps (include/tutti/device/sequence_ops.hpp).
// outputs, gradients and doutputs f32[N, T, 4], wanted f32[N, 2·T]. The arithmetic is in double.
//
// Moves: forward N · T · (16 + 16 + 8) bytes (the second reading of a sample finds it in a cache), backward
// N · T · 32. Floor at 4.3 TB/s for 64 samples of 1800 seconds: 1.1 µs and 0.9 µs, less than a launch.

#include "stream.hpp"
#include "tutti/device/segment_loss.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

/// gradients may be outputs. workspace: f64[2·N].
void segment_loss_forward(const TensorView& outputs, const TensorView& wanted, const TensorView& workspace,
                          const SegmentLoss& loss, const TensorView& gradients, const TensorView& sums,
                          Stream stream);

/// scale: f64[1], in the GPU's memory, so that a recorded step can change it. doutputs may be gradients.
void segment_loss_backward(const TensorView& gradients, const TensorView& scale, const TensorView& doutputs,
                           Stream stream);

}  // namespace tutti::cuda
