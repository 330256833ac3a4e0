#pragma once
// Weight gradients in bf16 by the processor's matrix unit.

#include <vector>

#include "bf16_weight_gradient.hpp"
#include "convolution_taps.hpp"
#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// Where an output meets a place of the window.
struct GradientTap {
    std::int64_t plane, offset;
};

/// Of convolutions that takes_amx_convolution (amx_convolution.hpp) takes.
class AmxWeightGradient {
  public:
    explicit AmxWeightGradient(const Conv2dShape& shape);

    /// As bf16_weight_gradient of a convolution: dweight[O, KH, KW, I] of x[N, H, W, I] and dy[N, OH, OW, O],
    /// rounded to bf16, with sums in fp32. dbias[O]: the sum of dy before rounding, or null. The bits depend
    /// neither on the number of threads nor on `workspace`.
    void compute(std::int64_t batch, const float* x, const float* dy, float* dweight, float* dbias,
                 Workspace& workspace) const;

  private:
    const Conv2dShape shape_;
    const TapAxis rows_, columns_;
    std::vector<GradientTap> taps_;
};

/// As bf16_weight_gradient of a linear layer.
void amx_linear_weight_gradient(const LinearShape& shape, std::int64_t rows, const float* x, const float* dy,
                                float* dweight, const GradientOfOutput& also, Workspace& workspace);

}  // namespace tutti
