#pragma once

#include <memory>

#include "onednn_ops.hpp"
#include "onednn_primitive.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

std::unique_ptr<LinearOp> make_onednn_linear(const LinearShape& shape,
                                             std::shared_ptr<OnednnContext> context);
/// Null with products in bf16, which are not dealt among threads by features.
std::unique_ptr<ReluLinearOp> make_onednn_relu_linear(const LinearShape& shape,
                                                      std::shared_ptr<OnednnContext> context);

/// `fallback` computes what oneDNN has only plain loops for.
std::unique_ptr<Conv2dOp> make_onednn_conv2d(const Conv2dShape& shape, std::shared_ptr<OnednnContext> context,
                                             std::unique_ptr<Conv2dOp> fallback, Winograd winograd);

}  // namespace tutti
