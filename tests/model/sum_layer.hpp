#pragma once
// The sum of its inputs, for graphs whose values have several readers or cross a cut.

#include <string>

#include "tutti/model/layer.hpp"

namespace tutti::test {

class Sum final : public Layer {
  public:
    using Layer::Layer;
    std::string kind() const override { return "sum"; }
    void forward(const LayerCall& call) override {
        ops().fill(call.output, 0.0);
        for (const TensorView& input : call.inputs) ops().add(input, call.output);
    }
    void backward(const LayerCall& call) override {
        for (const TensorView& gradient : call.input_gradients) {
            ops().fill(gradient, 0.0);
            ops().add(call.output_gradient, gradient);
        }
    }
};

}  // namespace tutti::test
