#include <algorithm>

#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "window_options.hpp"

namespace tutti {
namespace {

class MaxPool2d final : public Layer {
  public:
    explicit MaxPool2d(const Pool2dShape& shape)
        : Layer({shape.out_height(), shape.out_width(), shape.channels}), shape_(shape) {}

    std::string kind() const override { return "max_pool2d"; }
    bool reads_images() const override { return true; }
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
    require_image("max_pool2d", input);
    if (std::min(o.kernel_h, o.kernel_w) < 1 || o.kernel_h * o.kernel_w > 255)
        throw UsageError("max_pool2d: kernel " + to_string(Shape{o.kernel_h, o.kernel_w}),
                         "its sides must be at least 1 and its area at most 255");
    require_pool("max_pool2d", input, o);
    Pool2dShape shape;
    set_windows(shape, input, o);
    shape.channels = input[2];
    return std::make_unique<MaxPool2d>(shape);
}

}  // namespace tutti
