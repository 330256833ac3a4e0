#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

class Add final : public Layer {
  public:
    using Layer::Layer;
    std::string kind() const override { return "add"; }
    bool reads_images() const override { return true; }
    bool treats_samples_apart() const override { return true; }
    bool works_in_place() const override { return true; }
    bool backward_reads_output() const override { return relu_; }
    bool fuse_relu_behind(Ops&) override { return relu_ = true; }
    bool passes_gradient_on(std::size_t) const override { return !relu_; }
    double forward_flops() const override { return static_cast<double>(output_shape().count()); }
    double backward_flops(bool) const override { return 0; }
    void forward(const LayerCall& call) override {
        const TensorView &a = call.inputs[0], &b = call.inputs[1];
        relu_ ? ops().sum_relu(a, b, call.output) : ops().sum(a, b, call.output);
    }
    void backward(const LayerCall& call) override {
        if (relu_) return relu_backward(call);
        for (const TensorView& gradient : call.input_gradients)
            if (gradient.defined() && gradient.data != call.output_gradient.data)
                ops().copy(call.output_gradient, gradient);
    }

  private:
    void relu_backward(const LayerCall& call) {
        const TensorView &da = call.input_gradients[0], &db = call.input_gradients[1];
        if (da.defined() && db.defined())
            ops().sum_relu_backward(call.output, call.output_gradient, da, db);
        else if (da.defined() || db.defined())
            ops().relu_backward(call.output, call.output_gradient, da.defined() ? da : db);
    }

    bool relu_ = false;
};

}  // namespace

std::unique_ptr<Layer> make_add(const Shape& input) {
    return std::make_unique<Add>(input);
}

}  // namespace tutti
