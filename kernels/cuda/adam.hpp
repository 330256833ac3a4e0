#pragma once
// AdamW and Adam over the flat arenas, as AdamStep in device/ops.hpp, for all segments in one launch. f32,
// with the CPU's bits. The learning rate is the state's times the segment's lr_scale.
//
// Moves: gradient, parameter and both moments in, the latter three out: 28 bytes per element.
// Floor at 4.3 TB/s: 86 million parameters (ViT-B/16) in 560 µs.

#include "optimizer_step.hpp"

namespace tutti::cuda {

struct AdamSettings {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    bool decoupled = true;  ///< AdamW's weight decay
};

/// The arenas f32[N], aligned to 16 bytes.
void adam(const AdamSettings& settings, const StepState* state, const UpdateChunks& chunks,
          const TensorView& gradient, const TensorView& parameter, const TensorView& first_moment,
          const TensorView& second_moment, Stream stream);

}  // namespace tutti::cuda
