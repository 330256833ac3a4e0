#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

class Add final : public Layer {
  public:
    using Layer::Layer;
    std::string kind() const override { return "add"; }
    bool works_in_place() const override { return true; }
    double forward_flops() const override { return static_cast<double>(output_shape().count()); }
    double backward_flops(bool) const override { return 0; }
    void forward(const LayerCall& call) override { ops().sum(call.inputs[0], call.inputs[1], call.output); }
    void backward(const LayerCall& call) override {
        for (const TensorView& gradient : call.input_gradients)
            if (gradient.defined() && gradient.data != call.output_gradient.data)
                ops().copy(call.output_gradient, gradient);
    }
};

}  // namespace

std::unique_ptr<Layer> make_add(const Shape& input) {
    return std::make_unique<Add>(input);
}

}  // namespace tutti
