#include "transformer_builder.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {

GraphSpec build_videomae(const Shape& input, const VideoMaeOptions& o, std::int64_t classes) {
    constexpr double head_scale = 0.001;  // VideoMAE's init_scale
    TransformerBuilder builder(input,
                               {o.dim, o.depth, o.heads, o.mlp_ratio, o.gelu, o.norm_eps, o.drop_path});
    builder.append("patch_embed", make_tubelets(input, o.tubelet));
    const ParameterSpec weight = tubelet_weight(input, o.tubelet, o.dim);
    builder.append("patch_embed.proj", make_linear(builder.last(), weight, weight.initial));
    builder.append("positions", make_tubelet_positions(builder.last(), input, o.tubelet));
    for (std::int64_t i = 0; i < o.depth; ++i) builder.block({.index = i, .key_bias = false});
    builder.append("pool", make_pool_tokens(builder.last(), TokenPooling::mean));
    builder.norm("fc_norm");
    builder.linear("head", classes, head_scale);
    return builder.finish();
}

}  // namespace tutti
