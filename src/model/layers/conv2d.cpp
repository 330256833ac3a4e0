#include <cmath>

#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "window_options.hpp"

namespace tutti {
namespace {

Shape output_of(const Conv2dShape& s) {
    return {s.out_height(), s.out_width(), s.out};
}

class Conv2d final : public Layer {
  public:
    Conv2d(const Conv2dShape& shape, const std::optional<Initializer>& weight_initial)
        : Layer(output_of(shape)), shape_(shape) {
        const std::int64_t in = shape.in / shape.groups;
        const double fan_in = static_cast<double>(in * shape.kernel_h * shape.kernel_w);
        const Initializer initial = Initializer::uniform(1.0 / std::sqrt(fan_in));
        const Shape weight{shape.out, in, shape.kernel_h, shape.kernel_w};
        add_parameter({"weight", weight, weight, {0, 2, 3, 1}, weight_initial.value_or(initial)});
        if (shape.bias) add_parameter({"bias", {shape.out}, {shape.out}, {}, initial});
    }

    std::string kind() const override { return "conv2d"; }
    bool converts() const override { return true; }
    bool reads_images() const override { return !pooled_; }
    bool backward_reads_input() const override { return true; }
    double forward_flops() const override {
        return 2.0 * static_cast<double>(output_of(shape_).count()) *
               static_cast<double>(shape_.in / shape_.groups * shape_.kernel_h * shape_.kernel_w);
    }

    bool fuse_pooling_behind(const Pool2dShape& pool, Ops& ops, bool input_gradient) override {
        pooled_ = ops.pooled_conv2d(shape_, pool, input_gradient);
        if (pooled_) set_output_shape({pool.out_height(), pool.out_width(), pool.channels});
        return pooled_ != nullptr;
    }
    bool fuse_gradient_sum(Ops& ops, DType type) override {
        shape_.adds_to_dx = !pooled_ && ops.adds_conv2d_gradient(shape_, type);
        return shape_.adds_to_dx;
    }
    /// The winners of the pooling.
    std::int64_t state_bytes_per_sample() const override { return pooled_ ? output_shape().count() : 0; }

    void prepare(Ops& ops) override {
        Layer::prepare(ops);
        if (!pooled_) op_ = ops.conv2d(shape_);
    }
    void forward(const LayerCall& call) override {
        if (pooled_)
            return pooled_->forward(call.inputs[0], call.product_parameters[0], bias_of(call.parameters),
                                    call.output, winner(call));
        op_->forward(call.inputs[0], call.product_parameters[0], bias_of(call.parameters), call.output);
    }
    void backward(const LayerCall& call) override {
        if (pooled_)
            return pooled_->backward(call.inputs[0], call.product_parameters[0], winner(call),
                                     call.output_gradient, call.input_gradients[0],
                                     call.parameter_gradients[0], bias_of(call.parameter_gradients));
        op_->backward(call.inputs[0], call.product_parameters[0], call.output_gradient,
                      call.input_gradients[0], call.parameter_gradients[0], bias_of(call.parameter_gradients),
                      call.parameter_gradients_final);
    }

  private:
    TensorView bias_of(std::span<const TensorView> tensors) const {
        return shape_.bias ? tensors[1] : TensorView{};
    }
    TensorView winner(const LayerCall& call) const {
        return call.state.reshaped(output_shape().with_front(call.state.shape[0]));
    }

    Conv2dShape shape_;
    std::unique_ptr<Conv2dOp> op_;
    std::unique_ptr<PooledConv2dOp> pooled_;  // in its place
};

}  // namespace

std::unique_ptr<Layer> make_conv2d(const Shape& input, const Conv2dOptions& o) {
    require_image("conv2d", input);
    require_at_least("conv2d", "out", o.out, 1);
    require_at_least("conv2d", "kernel", std::min(o.kernel_h, o.kernel_w), 1);
    require_at_least("conv2d", "stride", std::min(o.stride_h, o.stride_w), 1);
    require_at_least("conv2d", "padding", std::min(o.padding_h, o.padding_w), 0);
    require_at_least("conv2d", "groups", o.groups, 1);
    if (input[2] % o.groups != 0 || o.out % o.groups != 0)
        throw UsageError("conv2d: " + std::to_string(input[2]) + " input and " + std::to_string(o.out) +
                             " output channels cannot be split into " + std::to_string(o.groups) + " groups",
                         "choose a divisor of both");
    require_fit("conv2d", input, o, "use a smaller kernel or more padding");
    Conv2dShape shape;
    set_windows(shape, input, o);
    shape.in = input[2];
    shape.out = o.out;
    shape.groups = o.groups;
    shape.bias = o.bias;
    return std::make_unique<Conv2d>(shape, o.weight_initial);
}

}  // namespace tutti
