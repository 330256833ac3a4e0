#pragma once
// Transposed convolution: the gradient of a convolution with respect to its input, as a layer of its own.

#include <cstdint>

#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// of torch.nn.ConvTranspose2d, one group, dilation 1. output_padding (below the stride) adds rows and
/// columns on one side, where a convolution with this stride would have dropped them.
struct ConvTranspose2dShape {
    std::int64_t height = 0, width = 0, in = 0, out = 0;
    std::int64_t kernel_h = 1, kernel_w = 1;
    std::int64_t stride_h = 1, stride_w = 1;
    std::int64_t padding_h = 0, padding_w = 0;
    std::int64_t output_padding_h = 0, output_padding_w = 0;
    bool bias = true;
    std::int64_t out_height() const {
        return (height - 1) * stride_h - 2 * padding_h + kernel_h + output_padding_h;
    }
    std::int64_t out_width() const {
        return (width - 1) * stride_w - 2 * padding_w + kernel_w + output_padding_w;
    }
};

/// x[N, H, W, I], weight[I, KH, KW, O], bias[O] -> y[N, OH, OW, O].
class ConvTranspose2dOp {
  public:
    virtual ~ConvTranspose2dOp() = default;
    virtual void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                         const TensorView& y) = 0;
    /// dx is skipped when undefined; dbias is undefined without bias.
    virtual void backward(const TensorView& x, const TensorView& weight, const TensorView& dy,
                          const TensorView& dx, const TensorView& dweight, const TensorView& dbias) = 0;
};

}  // namespace tutti
