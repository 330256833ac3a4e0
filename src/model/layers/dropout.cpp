#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

class Dropout final : public Layer {
  public:
    Dropout(const Shape& shape, double probability) : Layer(shape), probability_(probability) {}

    std::string kind() const override { return "dropout"; }
    bool works_in_place() const override { return true; }
    std::int64_t state_bytes_per_sample() const override { return output_shape().count(); }

    void forward(const LayerCall& call) override {
        const StepContext& step = *call.step;
        if (step.phase == Phase::evaluate) return ops().copy(call.inputs[0], call.output);
        ops().dropout_forward({step.seed, step.epoch, step.positions, call.number}, probability_,
                              call.inputs[0], call.output, keep(call));
    }
    void backward(const LayerCall& call) override {
        if (call.input_gradients[0].defined())
            ops().dropout_backward(probability_, call.output_gradient, keep(call), call.input_gradients[0]);
    }

  private:
    TensorView keep(const LayerCall& call) const {
        return call.state.reshaped(output_shape().with_front(call.state.shape[0]));
    }
    double probability_;
};

}  // namespace

std::unique_ptr<Layer> make_dropout(const Shape& input, double probability) {
    if (!(probability >= 0 && probability <= 1))
        throw UsageError("dropout: the probability is " + std::to_string(probability),
                         "it must be between 0 and 1");
    return std::make_unique<Dropout>(input, probability);
}

}  // namespace tutti
