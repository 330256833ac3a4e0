#pragma once
// LAMB over the flat arenas, as LambStep and Ops::lamb_apply in device/ops.hpp, for all parameters in three
// launches: directions and partial norms, norms, updates. f32; the norms are summed in double, chunk by
// chunk. The learning rate is the state's times the segment's lr_scale; a segment is one parameter.
//
// Moves: gradient, parameter and moments in, update and moments out, then update and parameter in, parameter
// out: 40 bytes per element. Floor at 4.3 TB/s: 86 million parameters (ViT-B/16) in 800 µs.

#include "optimizer_step.hpp"

namespace tutti::cuda {

struct LambSettings {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-6;
};

/// Doubles of workspace.
std::int64_t lamb_workspace(std::int64_t chunks);

/// The arenas f32[N], aligned to 16 bytes; `gradient` becomes the update's direction. squares (f64[S, 2])
/// gets {Σ p², Σ update²} of each of the S segments; workspace: f64[lamb_workspace(chunks)].
void lamb(const LambSettings& settings, const StepState* state, const UpdateChunks& chunks,
          const TensorView& gradient, const TensorView& parameter, const TensorView& first_moment,
          const TensorView& second_moment, const TensorView& squares, const TensorView& workspace,
          Stream stream);

}  // namespace tutti::cuda
