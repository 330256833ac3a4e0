#pragma once
// Convolution and max pooling in one. Of the gradients of the convolution's output, which is large, pooling
// leaves one in a window.

#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// y = max pooling of Conv2d(x). Shapes as in Conv2dShape and Pool2dShape: x[N, H, W, I],
/// weight[O, KH, KW, I], y[N, PH, PW, O]; `winner` (u8, y's shape) is what max_pool2d_forward would write.
/// The gradients are always computed in the compute type, also where other products are rounded to bf16.
class PooledConv2dOp {
  public:
    virtual ~PooledConv2dOp() = default;
    virtual void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                         const TensorView& y, const TensorView& winner) = 0;
    /// dx[N, H, W, I] (skipped when undefined; undefined where the operator was made without it),
    /// dweight[O, KH, KW, I], dbias[O] (undefined without bias); `winner` as forward left it. Their bits do
    /// not depend on the number of threads.
    virtual void backward(const TensorView& x, const TensorView& weight, const TensorView& winner,
                          const TensorView& dy, const TensorView& dx, const TensorView& dweight,
                          const TensorView& dbias) = 0;
};

}  // namespace tutti
