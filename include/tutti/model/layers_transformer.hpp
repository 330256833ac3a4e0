#pragma once
// The layers of transformers. Tokens are {T, C}: T rows of width C. Each throws UsageError when the input
// does not fit (what came, what is wanted).

#include <memory>

#include "tutti/model/layer.hpp"

namespace tutti {

/// Normalizes over the last dimension; weight {C}: 1, bias {C}: 0 (torch.nn.LayerNorm, whose default eps is
/// 1e-5). Behind a flattened image a file holds weight and bias in PyTorch's order (C, H, W), as for
/// make_linear.
std::unique_ptr<Layer> make_layer_norm(const Shape& input, double eps, const Shape& flattened_from = {});

/// On any shape (torch.nn.GELU).
std::unique_ptr<Layer> make_gelu(const Shape& input, GeluForm form = GeluForm::exact);
/// "exact" or "tanh"; UsageError that begins with `where` otherwise.
GeluForm gelu_form(const std::string& name, const std::string& where);

/// The core of multi-head self-attention: {T, 3·C} -> {T, C} with `heads` heads of width C/heads. A token's
/// input is q, k and v, each head after head, as timm's `qkv` layer gives it. No parameters.
std::unique_ptr<Layer> make_attention(const Shape& input, std::int64_t heads);

/// {H, W, C} -> {H·W, C}, row by row; no data moved.
std::unique_ptr<Layer> make_tokens(const Shape& input);

/// {T, C} -> {T+1, C}: a learned token in front, and learned positions added to all. cls_token {1, 1, C}:
/// N(0, 1e-6²); pos_embed {1, T+1, C}: truncated normal, std 0.02 (timm). Without a class token {T, C} -> {T,
/// C}.
std::unique_ptr<Layer> make_embed_tokens(const Shape& input, bool class_token);

/// {T, C} -> {C}: the first token, or the mean of all.
std::unique_ptr<Layer> make_pool_tokens(const Shape& input, TokenPooling pooling);

/// Stochastic depth (Huang et al. 2016; timm's DropPath): in training a sample becomes 0 with this
/// probability and is scaled by 1/(1 − probability) otherwise; in evaluation nothing happens. `number` tells
/// the layers of a model apart: the decision about a sample is number `number` of the stream (seed,
/// drop_path, epoch, position).
std::unique_ptr<Layer> make_drop_path(const Shape& input, double probability, std::uint64_t number);

}  // namespace tutti
