#include <algorithm>

#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

class MaxPool2d final : public Layer {
  public:
    explicit MaxPool2d(const Pool2dShape& shape)
        : Layer({shape.out_height(), shape.out_width(), shape.channels}), shape_(shape) {}

    std::string kind() const override { return "max_pool2d"; }
    std::int64_t state_bytes_per_sample() const override { return output_shape().count(); }
    bool fuse_relu_before() override {
        // max(max(x, 0) over the window) = max(max over the window, 0): so many fewer comparisons.
        shape_.relu = true;
        return true;
    }
    const Pool2dShape* max_pooling() const override { return &shape_; }
    void forward(const LayerCall& call) override {
        ops().max_pool2d_forward(shape_, call.inputs[0], call.output, winner(call));
    }
    void backward(const LayerCall& call) override {
        if (call.input_gradients[0].defined())
            ops().max_pool2d_backward(shape_, call.output_gradient, winner(call), call.input_gradients[0]);
    }

  private:
    TensorView winner(const LayerCall& call) const {
        return call.state.reshaped(output_shape().with_front(call.state.shape[0]));
    }
    Pool2dShape shape_;
};

}  // namespace

std::unique_ptr<Layer> make_max_pool2d(const Shape& input, const Pool2dOptions& o) {
    if (input.rank() != 3)
        throw UsageError("max_pool2d: the input has shape " + to_string(input),
                         "an image [height, width, channels] is needed");
    if (std::min(o.kernel_h, o.kernel_w) < 1 || o.kernel_h * o.kernel_w > 255)
        throw UsageError("max_pool2d: kernel " + to_string(Shape{o.kernel_h, o.kernel_w}),
                         "its sides must be at least 1 and its area at most 255");
    if (std::min(o.stride_h, o.stride_w) < 1)
        throw UsageError("max_pool2d: stride " + to_string(Shape{o.stride_h, o.stride_w}),
                         "it must be at least 1");
    if (std::min(o.padding_h, o.padding_w) < 0 || 2 * o.padding_h > o.kernel_h ||
        2 * o.padding_w > o.kernel_w)
        throw UsageError("max_pool2d: padding " + to_string(Shape{o.padding_h, o.padding_w}),
                         "it must be between 0 and half of the kernel");
    if (input[0] + 2 * o.padding_h < o.kernel_h || input[1] + 2 * o.padding_w < o.kernel_w)
        throw UsageError("max_pool2d: a kernel of " + to_string(Shape{o.kernel_h, o.kernel_w}) +
                             " does not fit into the input " + to_string(input),
                         "use a smaller kernel");
    Pool2dShape shape;
    shape.height = input[0];
    shape.width = input[1];
    shape.channels = input[2];
    shape.kernel_h = o.kernel_h;
    shape.kernel_w = o.kernel_w;
    shape.stride_h = o.stride_h;
    shape.stride_w = o.stride_w;
    shape.padding_h = o.padding_h;
    shape.padding_w = o.padding_w;
    return std::make_unique<MaxPool2d>(shape);
}

}  // namespace tutti
