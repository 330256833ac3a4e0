#include <algorithm>
#include <cmath>

#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "window_options.hpp"

namespace tutti {
namespace {

class ConvTranspose2d final : public Layer {
  public:
    explicit ConvTranspose2d(const ConvTranspose2dShape& shape)
        : Layer({shape.out_height(), shape.out_width(), shape.out}), shape_(shape) {
        const double fan_in = static_cast<double>(shape.out) * static_cast<double>(shape.kernel_h) *
                              static_cast<double>(shape.kernel_w);
        const Initializer initial = Initializer::uniform(1.0 / std::sqrt(fan_in));
        const Shape weight{shape.in, shape.out, shape.kernel_h, shape.kernel_w};
        add_parameter({"weight", weight, weight, {0, 2, 3, 1}, initial});
        if (shape.bias) add_parameter({"bias", {shape.out}, {shape.out}, {}, initial});
    }

    std::string kind() const override { return "conv_transpose2d"; }
    bool converts() const override { return true; }
    bool backward_reads_input() const override { return true; }
    double forward_flops() const override {
        return 2.0 * static_cast<double>(shape_.height * shape_.width * shape_.in) *
               static_cast<double>(shape_.out * shape_.kernel_h * shape_.kernel_w);
    }

    void prepare(Ops& ops) override {
        Layer::prepare(ops);
        op_ = ops.conv_transpose2d(shape_);
    }
    void forward(const LayerCall& call) override {
        op_->forward(call.inputs[0], call.product_parameters[0], bias_of(call.parameters), call.output);
    }
    void backward(const LayerCall& call) override {
        op_->backward(call.inputs[0], call.product_parameters[0], call.output_gradient,
                      call.input_gradients[0], call.parameter_gradients[0],
                      bias_of(call.parameter_gradients));
    }

  private:
    TensorView bias_of(std::span<const TensorView> tensors) const {
        return shape_.bias ? tensors[1] : TensorView{};
    }

    ConvTranspose2dShape shape_;
    std::unique_ptr<ConvTranspose2dOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_conv_transpose2d(const Shape& input, const ConvTranspose2dOptions& o) {
    require_image("conv_transpose2d", input);
    require_at_least("conv_transpose2d", "out", o.out, 1);
    require_at_least("conv_transpose2d", "kernel", std::min(o.kernel_h, o.kernel_w), 1);
    require_at_least("conv_transpose2d", "stride", std::min(o.stride_h, o.stride_w), 1);
    require_at_least("conv_transpose2d", "padding", std::min(o.padding_h, o.padding_w), 0);
    require_at_least("conv_transpose2d", "output_padding", std::min(o.output_padding_h, o.output_padding_w),
                     0);
    if (o.output_padding_h >= o.stride_h || o.output_padding_w >= o.stride_w)
        throw UsageError(
            "conv_transpose2d: output_padding " + to_string(Shape{o.output_padding_h, o.output_padding_w}),
            "it must be smaller than the stride");
    ConvTranspose2dShape shape;
    set_windows(shape, input, o);
    shape.in = input[2];
    shape.out = o.out;
    shape.output_padding_h = o.output_padding_h;
    shape.output_padding_w = o.output_padding_w;
    shape.bias = o.bias;
    if (std::min(shape.out_height(), shape.out_width()) < 1)
        throw UsageError("conv_transpose2d: the output would be " +
                             to_string(Shape{shape.out_height(), shape.out_width()}) + " pixels",
                         "use less padding or a larger kernel");
    return std::make_unique<ConvTranspose2d>(shape);
}

}  // namespace tutti
