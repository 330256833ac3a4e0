#include <cmath>

#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

class Linear final : public Layer {
  public:
    Linear(const Shape& image, std::int64_t in, std::int64_t out, bool bias)
        : Layer(Shape{out}), shape_{in, out, bias} {
        const Initializer initial = Initializer::uniform(1.0 / std::sqrt(static_cast<double>(in)));
        ParameterSpec weight{"weight", {out, in}, {out, in}, {}, initial};
        if (image.rank() == 3) {
            weight.view = {out, image[2], image[0], image[1]};
            weight.permutation = {0, 2, 3, 1};
        }
        add_parameter(weight);
        if (bias) add_parameter({"bias", {out}, {out}, {}, initial});
    }

    std::string kind() const override { return "linear"; }
    bool backward_reads_input() const override { return true; }
    double forward_flops() const override {
        return 2.0 * static_cast<double>(shape_.in) * static_cast<double>(shape_.out);
    }

    void prepare(Ops& ops) override {
        Layer::prepare(ops);
        op_ = ops.linear(shape_);
    }
    void forward(const LayerCall& call) override {
        op_->forward(flat(call.inputs[0]), call.parameters[0], bias_of(call.parameters), call.output);
    }
    void backward(const LayerCall& call) override {
        const TensorView dx = call.input_gradients[0];
        op_->backward(flat(call.inputs[0]), call.parameters[0], call.output_gradient,
                      dx.defined() ? flat(dx) : TensorView{}, call.parameter_gradients[0],
                      bias_of(call.parameter_gradients));
    }

  private:
    TensorView flat(const TensorView& x) const { return x.reshaped({x.shape[0], shape_.in}); }
    TensorView bias_of(std::span<const TensorView> tensors) const {
        return shape_.bias ? tensors[1] : TensorView{};
    }

    LinearShape shape_;
    std::unique_ptr<LinearOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_linear(const Shape& input, std::int64_t out, bool bias,
                                   const Shape& flattened_from) {
    if (out < 1) throw UsageError("linear: out is " + std::to_string(out), "it must be at least 1");
    const Shape& image = flattened_from.rank() == 3 ? flattened_from : input;
    return std::make_unique<Linear>(image, input.count(), out, bias);
}

}  // namespace tutti
