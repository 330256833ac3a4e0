#pragma once
// torch.optim.SGD over the flat arenas, as SgdStep in device/ops.hpp, for all segments in one launch. f32,
// with the CPU's bits. The learning rate is the state's times the segment's lr_scale; the first step is
// step 1.
//
// Moves: gradient, parameter and momentum in, the latter two out: 20 bytes per element (12 without momentum).
// Floor at 4.3 TB/s: 25.6 million parameters (ResNet-50) in 119 µs.

#include "optimizer_step.hpp"

namespace tutti::cuda {

struct SgdSettings {
    double momentum = 0, dampening = 0;
    bool nesterov = false;
};

/// The arenas f32[N], aligned to 16 bytes; momentum_buffer undefined without momentum.
void sgd(const SgdSettings& settings, const StepState* state, const UpdateChunks& chunks,
         const TensorView& gradient, const TensorView& parameter, const TensorView& momentum_buffer,
         Stream stream);

}  // namespace tutti::cuda
