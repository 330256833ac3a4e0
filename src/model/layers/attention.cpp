#include "tutti/base/error.hpp"
#include "tutti/model/layers_transformer.hpp"

namespace tutti {
namespace {

class Attention final : public Layer {
  public:
    Attention(const AttentionShape& shape, bool masked)
        : Layer({shape.tokens, shape.heads * shape.width}), shape_(shape), masked_(masked) {}

    std::string kind() const override { return "attention"; }
    bool treats_samples_apart() const override { return true; }
    bool backward_reads_input() const override { return true; }
    bool backward_reads_output() const override { return keeps_statistics_; }
    void choose_what_is_kept(const Ops& ops, DType) override {
        keeps_statistics_ = ops.keeps_attention_statistics(shape_, masked_);
    }
    std::int64_t state_bytes_per_sample() const override {
        const std::int64_t rows = shape_.heads * shape_.tokens;
        return keeps_statistics_ ? rows * static_cast<std::int64_t>(sizeof(float)) : 0;
    }
    /// The two products; the softmax is small beside them.
    double forward_flops() const override {
        return 4.0 * static_cast<double>(shape_.tokens) * static_cast<double>(output_shape().count());
    }
    /// Four products: the gradients of the probabilities, q, k and v. That the probabilities are computed
    /// again is our choice and not counted.
    double backward_flops(bool input_gradient) const override {
        return input_gradient ? 2 * forward_flops() : 0;
    }
    void forward(const LayerCall& call) override {
        ops().attention_forward(shape_, call.inputs[0], call.output, statistics(call), mask(call));
    }
    void backward(const LayerCall& call) override {
        if (!call.input_gradients[0].defined()) return;
        ops().attention_backward(shape_, call.inputs[0], keeps_statistics_ ? call.output : TensorView(),
                                 statistics(call), call.output_gradient, call.input_gradients[0], mask(call));
    }

  private:
    TensorView mask(const LayerCall& call) const { return masked_ ? call.inputs[1] : TensorView(); }
    TensorView statistics(const LayerCall& call) const {
        if (!keeps_statistics_) return {};
        return {call.state.data, DType::f32, {call.state.shape[0], shape_.heads, shape_.tokens}};
    }

    AttentionShape shape_;
    bool masked_;
    bool keeps_statistics_ = false;
};

AttentionShape attention_shape(const Shape& input, std::int64_t heads) {
    if (input.rank() != 2)
        throw UsageError("attention: the input has shape " + to_string(input),
                         "tokens [T, 3 * C] with query, key and value are needed");
    if (heads < 1) throw UsageError("attention: heads is " + std::to_string(heads), "it must be at least 1");
    if (input[1] % (3 * heads) != 0)
        throw UsageError("attention: tokens of width " + std::to_string(input[1]) +
                             " cannot be cut into query, key and value of " + std::to_string(heads) +
                             " heads",
                         "let 3 * heads divide the width");
    return {input[0], heads, input[1] / (3 * heads)};
}

}  // namespace

std::unique_ptr<Layer> make_attention(const Shape& input, std::int64_t heads) {
    return std::make_unique<Attention>(attention_shape(input, heads), false);
}
std::unique_ptr<Layer> make_masked_attention(const Shape& input, std::int64_t heads) {
    return std::make_unique<Attention>(attention_shape(input, heads), true);
}

}  // namespace tutti
