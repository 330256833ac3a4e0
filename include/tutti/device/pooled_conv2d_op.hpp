#pragma once
// Convolution and max pooling in one: for the layer that reads the images, whose output is large next to the
// work of making it.

#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// y = max pooling of Conv2d(x), without the convolution's output ever being in memory. Shapes as in
/// Conv2dShape and Pool2dShape: x[N, H, W, I], weight[O, KH, KW, I], y[N, PH, PW, O]; `winner` (u8, y's
/// shape) is what max_pool2d_forward would write. There is no gradient of x: this is for a layer whose input
/// is data. Always computed in the compute type, also where other products are rounded to bf16.
class PooledConv2dOp {
  public:
    virtual ~PooledConv2dOp() = default;
    virtual void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                         const TensorView& y, const TensorView& winner) = 0;
    /// dweight[O, KH, KW, I], dbias[O] (undefined without bias); `winner` as forward left it. Their bits do
    /// not depend on the number of threads.
    virtual void backward(const TensorView& x, const TensorView& winner, const TensorView& dy,
                          const TensorView& dweight, const TensorView& dbias) = 0;
};

}  // namespace tutti
