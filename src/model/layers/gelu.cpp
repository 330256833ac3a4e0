#include "tutti/model/layers_transformer.hpp"

namespace tutti {
namespace {

class Gelu final : public Layer {
  public:
    using Layer::Layer;
    std::string kind() const override { return "gelu"; }
    bool treats_samples_apart() const override { return true; }
    bool backward_reads_input() const override { return true; }
    void forward(const LayerCall& call) override { ops().gelu_forward(call.inputs[0], call.output); }
    void backward(const LayerCall& call) override {
        if (call.input_gradients[0].defined())
            ops().gelu_backward(call.inputs[0], call.output_gradient, call.input_gradients[0]);
    }
};

}  // namespace

std::unique_ptr<Layer> make_gelu(const Shape& input) {
    return std::make_unique<Gelu>(input);
}

}  // namespace tutti
