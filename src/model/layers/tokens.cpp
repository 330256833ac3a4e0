// From an image to tokens, and from tokens to one vector.

#include "tutti/base/error.hpp"
#include "tutti/model/layers_transformer.hpp"

namespace tutti {
namespace {

class Tokens final : public Layer {
  public:
    using Layer::Layer;
    std::string kind() const override { return "tokens"; }
    bool is_view() const override { return true; }
    void forward(const LayerCall&) override {}
    void backward(const LayerCall&) override {}
};

class EmbedTokens final : public Layer {
  public:
    EmbedTokens(const Shape& input, bool class_token)
        : Layer({input[0] + (class_token ? 1 : 0), input[1]}), class_token_(class_token) {
        const Shape token{1, 1, input[1]}, positions{1, output_shape()[0], input[1]};
        if (class_token) add_parameter({"cls_token", token, token, {}, Initializer::normal(1e-6)});
        add_parameter({"pos_embed", positions, positions, {}, Initializer::truncated_normal(0.02)});
    }

    std::string kind() const override { return "embed_tokens"; }
    double forward_flops() const override { return static_cast<double>(output_shape().count()); }
    /// The gradients of token and positions are sums over the batch; that of the input is a copy.
    double backward_flops(bool) const override { return forward_flops(); }
    void forward(const LayerCall& call) override {
        const auto parameters = call.parameters_like(call.output);
        ops().embed_tokens_forward(call.inputs[0], token_of(parameters), parameters.back(), call.output);
    }
    void backward(const LayerCall& call) override {
        ops().embed_tokens_backward(call.output_gradient, call.input_gradients[0],
                                    token_of(call.parameter_gradients), call.parameter_gradients.back());
    }

  private:
    TensorView token_of(std::span<const TensorView> tensors) const {
        return class_token_ ? tensors[0] : TensorView{};
    }
    bool class_token_;
};

class PoolTokens final : public Layer {
  public:
    PoolTokens(const Shape& input, TokenPooling pooling)
        : Layer({input[1]}),
          pooling_(pooling),
          summed_(pooling == TokenPooling::mean ? static_cast<double>(input.count()) : 0) {}
    std::string kind() const override { return "pool_tokens"; }
    double forward_flops() const override { return summed_; }
    void forward(const LayerCall& call) override {
        ops().pool_tokens_forward(pooling_, call.inputs[0], call.output);
    }
    void backward(const LayerCall& call) override {
        if (call.input_gradients[0].defined())
            ops().pool_tokens_backward(pooling_, call.output_gradient, call.input_gradients[0]);
    }

  private:
    TokenPooling pooling_;
    double summed_;
};

void require_tokens(const std::string& layer, const Shape& input) {
    if (input.rank() != 2 || input.count() == 0)
        throw UsageError(layer + ": the input has shape " + to_string(input), "tokens [T, C] are needed");
}

}  // namespace

std::unique_ptr<Layer> make_tokens(const Shape& input) {
    if (input.rank() != 3)
        throw UsageError("tokens: the input has shape " + to_string(input),
                         "an image [height, width, channels] is needed");
    return std::make_unique<Tokens>(Shape{input[0] * input[1], input[2]});
}

std::unique_ptr<Layer> make_embed_tokens(const Shape& input, bool class_token) {
    require_tokens("embed_tokens", input);
    return std::make_unique<EmbedTokens>(input, class_token);
}

std::unique_ptr<Layer> make_pool_tokens(const Shape& input, TokenPooling pooling) {
    require_tokens("pool_tokens", input);
    return std::make_unique<PoolTokens>(input, pooling);
}

}  // namespace tutti
