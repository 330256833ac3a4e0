#pragma once
// Weight gradients with products in bf16, by our own instructions: oneDNN 2.6's go at half the rate of its
// forward, because it brings pairs of pixels together anew in each kernel.

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// What bf16_weight_gradient computes fast: whole vectors of input channels, one group, on a processor with
/// the instructions.
bool takes_bf16_weight_gradient(const Conv2dShape& shape);
bool takes_bf16_weight_gradient(const LinearShape& shape);

/// Besides dweight; null where not wanted.
struct GradientOfOutput {
    std::uint16_t* rounded = nullptr;  ///< dy in bf16, [N, OH, OW, O]; null where dy is that
    float* bias = nullptr;             ///< dbias[O], the sum of dy before rounding
};
/// dweight[O, KH, KW, I] = Σ over images and pixels of dy[N, OH, OW, O]·x[N, H, W, I], of which x and dy are
/// both bf16 or rounded to it (std::uint16_t or float), and sums are fp32; added to what is in
/// dweight (and bias) when `add`. Reads x and dy once, some images at a time. The bits depend neither on the
/// number of threads nor on `workspace`.
template <class Value>
void bf16_weight_gradient(const Conv2dShape& shape, std::int64_t batch, const Value* x, const Value* dy,
                          float* dweight, const GradientOfOutput& also, bool add, Workspace& workspace);

/// dweight[O, I] of rows x[N, I] and dy[N, O], all fp32.
void bf16_weight_gradient(const LinearShape& shape, std::int64_t rows, const float* x, const float* dy,
                          float* dweight, const GradientOfOutput& also, Workspace& workspace);

}  // namespace tutti
