#pragma once
// Private to the CPU kernels: convolutions whose output is one pixel.

#include <functional>
#include <memory>

#include "tutti/device/ops.hpp"

namespace tutti {

/// True where the one window covers the whole image, as where a residual network has made it small: then a
/// convolution is a linear layer over the image's values, and those taps of the window that lie in the
/// padding never count.
bool is_one_window(const Conv2dShape& shape);

/// Of such a shape, as linear(…) of the image's values. Convolutions are slow there: their loops go along the
/// pixels of a row, and read all taps (of 3×3 over one pixel 512 channels wide 25 GFLOP/s where a product has
/// 180, eight ninths of them of zeros). type: of parameters. general: makes the convolution for what a linear
/// layer does not offer (backward_data), when it is asked for.
std::unique_ptr<Conv2dOp> make_one_pixel_conv2d(
    const Conv2dShape& shape, DType type, const std::function<std::unique_ptr<LinearOp>(LinearShape)>& linear,
    std::function<std::unique_ptr<Conv2dOp>()> general);

}  // namespace tutti
