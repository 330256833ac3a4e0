#include <fmt/format.h>

#include "image_order.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers_transformer.hpp"

namespace tutti {
namespace {

class LayerNorm final : public Layer {
  public:
    LayerNorm(const Shape& input, double eps, const Shape& image)
        : Layer(input), rows_(input.count() / input[input.rank() - 1]), eps_(eps) {
        const std::int64_t width = input[input.rank() - 1];
        ParameterSpec weight{"weight", {width}, {width}, {}, Initializer::constant(1)};
        keep_pytorchs_order(weight, image);
        ParameterSpec bias = weight;
        bias.name = "bias";
        bias.initial = Initializer::constant(0);
        add_parameter(weight);
        add_parameter(bias);
    }

    std::string kind() const override { return "layer_norm"; }
    bool treats_samples_apart() const override { return true; }
    bool backward_reads_input() const override { return true; }
    std::int64_t state_bytes_per_sample() const override {
        return rows_ * 2 * static_cast<std::int64_t>(sizeof(double));
    }
    bool fuse_gradient_sum(Ops&, DType) override { return adds_ = true; }
    /// Mean 1, variance 3, x̂ = (x − mean)·r 2, γ and β 2.
    double forward_flops() const override { return 8.0 * static_cast<double>(output_shape().count()); }
    /// x̂ 2, dβ 1, dγ 2; for dx: γ·dy 1, the two means 3, r·(γ·dy − a − b·x̂) 4.
    double backward_flops(bool input_gradient) const override {
        return (input_gradient ? 13.0 : 5.0) * static_cast<double>(output_shape().count());
    }
    void forward(const LayerCall& call) override {
        ops().layer_norm_forward(call.inputs[0], call.parameters[0], call.parameters[1], eps_, call.output,
                                 statistics(call));
    }
    void backward(const LayerCall& call) override {
        ops().layer_norm_backward(call.inputs[0], call.parameters[0], statistics(call), call.output_gradient,
                                  call.input_gradients[0], call.parameter_gradients[0],
                                  call.parameter_gradients[1],
                                  adds_ ? call.input_gradients[0] : TensorView{});
    }

  private:
    TensorView statistics(const LayerCall& call) const {
        return {call.state.data, DType::f64, {call.state.shape[0] * rows_, 2}};
    }

    std::int64_t rows_;
    double eps_;
    bool adds_ = false;  // to the gradient that the input has
};

}  // namespace

std::unique_ptr<Layer> make_layer_norm(const Shape& input, double eps, const Shape& flattened_from) {
    if (input.rank() == 0 || input.count() == 0)
        throw UsageError("layer_norm: the input has shape " + to_string(input), "it must have elements");
    if (!(eps > 0)) throw UsageError(fmt::format("layer_norm: eps is {}", eps), "it must be above 0");
    return std::make_unique<LayerNorm>(input, eps, flattened_from);
}

}  // namespace tutti
