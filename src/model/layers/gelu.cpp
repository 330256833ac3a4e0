#include "tutti/base/error.hpp"
#include "tutti/model/layers_transformer.hpp"

namespace tutti {
namespace {

class Gelu final : public Layer {
  public:
    Gelu(const Shape& shape, GeluForm form) : Layer(shape), form_(form) {}
    std::string kind() const override { return "gelu"; }
    const GeluForm* gelu_form() const override { return &form_; }
    bool treats_samples_apart() const override { return true; }
    bool backward_reads_input() const override { return true; }
    void forward(const LayerCall& call) override { ops().gelu_forward(form_, call.inputs[0], call.output); }
    void backward(const LayerCall& call) override {
        if (call.input_gradients[0].defined())
            ops().gelu_backward(form_, call.inputs[0], call.output_gradient, call.input_gradients[0]);
    }

  private:
    const GeluForm form_;
};

}  // namespace

std::unique_ptr<Layer> make_gelu(const Shape& input, GeluForm form) {
    return std::make_unique<Gelu>(input, form);
}

GeluForm gelu_form(const std::string& name, const std::string& where) {
    if (name == "exact") return GeluForm::exact;
    if (name == "tanh") return GeluForm::tanh;
    throw UsageError(where + " is " + name, "give exact or tanh");
}

}  // namespace tutti
