#include "transformer_builder.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/layers_masking.hpp"

namespace tutti {

GraphSpec build_videomae(const Shape& input, const VideoMaeOptions& o, std::int64_t classes) {
    constexpr double head_scale = 0.001;  // VideoMAE's init_scale
    TransformerBuilder builder(input,
                               {o.dim, o.depth, o.heads, o.mlp_ratio, o.gelu, o.norm_eps, o.drop_path});
    builder.append("patch_embed", make_tubelets(input, o.tubelet));
    const ParameterSpec weight = tubelet_weight(input, o.tubelet, o.dim);
    builder.append("patch_embed.proj",
                   make_linear(builder.last(), weight, {"bias", {o.dim}, {o.dim}, {}, weight.initial}));
    builder.append("positions", make_tubelet_positions(builder.last(), input, o.tubelet));
    for (std::int64_t i = 0; i < o.depth; ++i) builder.block({.index = i, .key_bias = false});
    builder.append("pool", make_pool_tokens(builder.last(), TokenPooling::mean));
    builder.norm("fc_norm");
    builder.linear("head", classes, head_scale);
    return builder.finish();
}

GraphSpec build_videomae_pretrain(const Shape& input, const VideoMaeOptions& o, const MaskingOptions& masking,
                                  std::span<const float> std) {
    const TransformerShape encoder{o.dim, o.depth, o.heads, o.mlp_ratio, o.gelu, o.norm_eps, o.drop_path};
    TransformerBuilder builder(input, encoder, LinearStart::xavier_uniform);
    builder.append("tubelets", make_tubelets(input, o.tubelet));
    const Shape tokens = builder.last();
    const TubeMask mask = tube_mask(input, o.tubelet, masking.ratio);
    const auto cells = running_cells(input, o.tubelet, masking.decoder_ratio);

    // Each token is embedded by itself, so those that nobody sees are left out before.
    builder.append("visible", make_visible_tokens(tokens, mask));
    builder.begin_part("encoder.", encoder);
    const ParameterSpec weight = tubelet_weight(input, o.tubelet, o.dim);
    builder.append("encoder.patch_embed.proj",
                   make_linear(builder.last(), weight, {"bias", {o.dim}, {o.dim}, {}, weight.initial}));
    builder.append("encoder.positions", make_visible_positions(builder.last(), input, o.tubelet, mask));
    for (std::int64_t i = 0; i < o.depth; ++i) builder.block({.index = i, .key_bias = false});
    builder.norm("norm");

    builder.begin_part("decoder.",
                       {masking.decoder_dim, masking.decoder_depth, masking.decoder_heads, o.mlp_ratio,
                        o.gelu, o.norm_eps, o.drop_path},
                       "model.decoder_");
    builder.append("encoder_to_decoder", make_linear(builder.last(), masking.decoder_dim, false));
    builder.append("", make_mask_tokens(builder.last(), input, o.tubelet, mask, cells));
    for (std::int64_t i = 0; i < masking.decoder_depth; ++i) builder.block({.index = i, .key_bias = false});
    builder.append("decoder.hidden",
                   make_last_tokens(builder.last(), cells ? cells->said_tokens(mask) : mask.hidden_tokens()));
    builder.norm("norm");
    builder.append("decoder.head", make_tubelet_head(builder.last(), input, o.tubelet));
    // Cut once more: what reads the input alone lies across no segment of train.recompute.
    builder.join("differences",
                 make_patch_differences(builder.last(), tokens, input, o.tubelet, mask, cells, std),
                 builder.of_input("pixels", make_tubelets(input, o.tubelet)));
    return builder.finish();
}

}  // namespace tutti
