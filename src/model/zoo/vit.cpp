#include "transformer_builder.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {

GraphSpec build_vit(const Shape& input, const VitOptions& o, std::int64_t classes) {
    if (o.patch < 1 || input[0] % o.patch != 0 || input[1] % o.patch != 0)
        throw UsageError("model.patch is " + std::to_string(o.patch) + ", but the images have " +
                             std::to_string(input[0]) + " x " + std::to_string(input[1]) + " pixels",
                         "choose a divisor of both");
    TransformerBuilder builder(input,
                               {o.dim, o.depth, o.heads, o.mlp_ratio, o.gelu, o.norm_eps, o.drop_path});

    // Each patch becomes a token: a convolution whose windows do not overlap.
    Conv2dOptions patch;
    patch.out = o.dim;
    patch.kernel_h = patch.kernel_w = patch.stride_h = patch.stride_w = o.patch;
    builder.append("patch_embed.proj", make_conv2d(builder.last(), patch));
    builder.append("patch_embed", make_tokens(builder.last()));
    builder.append("", make_embed_tokens(builder.last(), o.class_token));
    for (std::int64_t i = 0; i < o.depth; ++i)
        builder.block({.index = i, .first_token_only = o.class_token && i + 1 == o.depth});
    builder.norm("norm");
    if (!o.class_token) builder.append("pool", make_pool_tokens(builder.last(), TokenPooling::mean));
    builder.linear("head", classes);
    return builder.finish();
}

}  // namespace tutti
