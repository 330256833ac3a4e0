#include <cmath>

#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

class Linear final : public Layer {
  public:
    Linear(const Shape& image, const Shape& output, const LinearShape& shape, const LinearInitial& initial)
        : Layer(output), shape_(shape) {
        const std::int64_t in = shape.in, out = shape.out;
        const Initializer usual = Initializer::uniform(1.0 / std::sqrt(static_cast<double>(in)));
        ParameterSpec weight{"weight", {out, in}, {out, in}, {}, initial.weight.value_or(usual)};
        if (image.rank() == 3) {
            weight.view = {out, image[2], image[0], image[1]};
            weight.permutation = {0, 2, 3, 1};
        }
        add_parameter(weight);
        if (shape.bias) add_parameter({"bias", {out}, {out}, {}, initial.bias.value_or(usual)});
    }

    std::string kind() const override { return "linear"; }
    bool converts() const override { return true; }
    bool treats_samples_apart() const override { return true; }
    bool backward_reads_input() const override { return true; }
    double forward_flops() const override {
        return 2.0 * static_cast<double>(shape_.in) * static_cast<double>(output_shape().count());
    }

    void prepare(Ops& ops) override {
        Layer::prepare(ops);
        op_ = ops.linear(shape_);
    }
    void forward(const LayerCall& call) override {
        op_->forward(rows(call.inputs[0], shape_.in), call.product_parameters[0], bias_of(call),
                     rows(call.output, shape_.out));
    }
    void backward(const LayerCall& call) override {
        const TensorView dx = call.input_gradients[0];
        op_->backward(rows(call.inputs[0], shape_.in), call.product_parameters[0],
                      rows(call.output_gradient, shape_.out),
                      dx.defined() ? rows(dx, shape_.in) : TensorView{}, call.parameter_gradients[0],
                      shape_.bias ? call.parameter_gradients[1] : TensorView{},
                      call.parameter_gradients_final);
    }

  private:
    static TensorView rows(const TensorView& x, std::int64_t width) {
        return x.reshaped({x.count() / width, width});
    }
    /// The product adds it in the type of its result.
    TensorView bias_of(const LayerCall& call) const {
        return shape_.bias ? call.parameters_like(call.output)[1] : TensorView{};
    }

    LinearShape shape_;
    std::unique_ptr<LinearOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_linear(const Shape& input, std::int64_t out, bool bias,
                                   const Shape& flattened_from, const LinearInitial& initial) {
    if (out < 1) throw UsageError("linear: out is " + std::to_string(out), "it must be at least 1");
    const Shape& image = flattened_from.rank() == 3 ? flattened_from : input;
    const bool tokens = input.rank() == 2;
    return std::make_unique<Linear>(image, tokens ? Shape{input[0], out} : Shape{out},
                                    LinearShape{tokens ? input[1] : input.count(), out, bias}, initial);
}

}  // namespace tutti
