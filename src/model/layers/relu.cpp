#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

class Relu final : public Layer {
  public:
    using Layer::Layer;
    std::string kind() const override { return "relu"; }
    bool reads_images() const override { return true; }
    bool backward_reads_output() const override { return true; }
    bool works_in_place() const override { return true; }
    void forward(const LayerCall& call) override { ops().relu_forward(call.inputs[0], call.output); }
    void backward(const LayerCall& call) override {
        if (call.input_gradients[0].defined())
            ops().relu_backward(call.output, call.output_gradient, call.input_gradients[0]);
    }
};

}  // namespace

std::unique_ptr<Layer> make_relu(const Shape& input) {
    return std::make_unique<Relu>(input);
}

}  // namespace tutti
