#pragma once
// The layers of transformers. Tokens are {T, C}: T rows of width C. Each throws UsageError when the input
// does not fit (what came, what is wanted).

#include <memory>
#include <optional>
#include <span>

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
/// The same of sequences that may end early: a second input {T, 1} is 1 for the tokens that there are and 0
/// for padding behind them, which nobody attends to and whose output is 0.
std::unique_ptr<Layer> make_masked_attention(const Shape& input, std::int64_t heads);

/// {T, C} -> {T, count}: the columns from `first` on.
std::unique_ptr<Layer> make_columns(const Shape& input, std::int64_t first, std::int64_t count);
/// {T, A}, {T, B}, … -> {T, A + B + …}; one input at least.
std::unique_ptr<Layer> make_concatenation(std::span<const Shape> inputs);

/// {H, W, C} -> {H·W, C}, row by row; no data moved.
std::unique_ptr<Layer> make_tokens(const Shape& input);

/// {T, C} -> {T+1, C}: a learned token in front, and learned positions added to all. cls_token {1, 1, C}:
/// N(0, 1e-6²); pos_embed {1, T+1, C}: truncated normal, std 0.02 (timm). Without a class token {T, C} -> {T,
/// C}.
std::unique_ptr<Layer> make_embed_tokens(const Shape& input, bool class_token);

/// The input of attention, {T, C} -> {T, 3·C}: a linear layer whose bias is learned for q and v and zero for
/// k, on which the softmax does not depend (BEiT, Bao et al. 2021; VideoMAE). q_bias {C}: 0, v_bias {C}: 0,
/// qkv.weight {3·C, C}: U(±1/√C) unless given.
std::unique_ptr<Layer> make_query_key_value(const Shape& input,
                                            const std::optional<Initializer>& weight = {});

/// How clips are cut: into blocks of `depth` frames and size × size pixels.
struct Tubelet {
    std::int64_t frames = 16;  ///< of a clip
    std::int64_t depth = 2, size = 16;
};
/// {H, W, frames·C}, the channels of the first frame first, -> {T, size·size·depth·C}, T = H/size · W/size ·
/// frames/depth: rows of tubelets before columns before groups of frames, within a token rows before columns
/// before frames before channels. No parameters. UsageErrors name model.frames, model.tubelet and
/// model.patch.
std::unique_ptr<Layer> make_tubelets(const Shape& clip, const Tubelet& tubelet);
/// Behind it a linear layer with this weight is torch.nn.Conv3d with kernel = stride = (depth, size, size),
/// as whose weight {out, C, depth, size, size} a file holds it: U(±1/√(C·depth·size²)).
ParameterSpec tubelet_weight(const Shape& clip, const Tubelet& tubelet, std::int64_t out);
/// {T, C} -> {T, C}: adds sin(p/10000^(i/C)) to the even channels i and cos(p/10000^((i−1)/C)) to the odd
/// ones (Vaswani et al. 2017, section 3.5), where p counts the tokens of make_tubelets frames before rows
/// before columns, as VideoMAE does. Nothing is learned and nothing saved.
std::unique_ptr<Layer> make_tubelet_positions(const Shape& tokens, const Shape& clip, const Tubelet& tubelet);

/// The same of a sequence: p is the token's place in it.
std::unique_ptr<Layer> make_sequence_positions(const Shape& tokens);

/// {T, C} -> {C}: the first token, or the mean of all.
std::unique_ptr<Layer> make_pool_tokens(const Shape& input, TokenPooling pooling);

/// Stochastic depth (Huang et al. 2016; timm's DropPath): in training a sample becomes 0 with this
/// probability and is scaled by 1/(1 − probability) otherwise; in evaluation nothing happens. `number` tells
/// the layers of a model apart: the decision about a sample is number `number` of the stream (seed,
/// drop_path, epoch, position).
std::unique_ptr<Layer> make_drop_path(const Shape& input, double probability, std::uint64_t number);

}  // namespace tutti
