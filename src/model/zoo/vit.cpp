#include <cmath>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/layers_transformer.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

void check(const Shape& input, const VitOptions& o) {
    if (o.patch < 1 || input[0] % o.patch != 0 || input[1] % o.patch != 0)
        throw UsageError("model.patch is " + std::to_string(o.patch) + ", but the images have " +
                             std::to_string(input[0]) + " x " + std::to_string(input[1]) + " pixels",
                         "choose a divisor of both");
    if (o.depth < 1) throw UsageError("model.depth is " + std::to_string(o.depth), "it must be at least 1");
    if (o.heads < 1 || o.dim % o.heads != 0)
        throw UsageError("model.dim is " + std::to_string(o.dim) + ", which " + std::to_string(o.heads) +
                             " heads cannot share evenly",
                         "let model.heads divide model.dim");
    if (static_cast<double>(o.dim) * o.mlp_ratio < 1)
        throw UsageError("model.dim times model.mlp_ratio is below 1, so the hidden layers have no width",
                         "set model.mlp_ratio to 4, for example");
}

/// timm's initial values of linear layers (init_weights_vit_timm).
std::unique_ptr<Layer> linear(const Shape& input, std::int64_t out) {
    return make_linear(input, out, true, {}, {Initializer::truncated_normal(0.02), Initializer::constant(0)});
}

/// The blocks' parts, each behind the last one.
class VitBuilder {
  public:
    VitBuilder(const Shape& input, const VitOptions& options)
        : graph_(input), options_(options), last_(graph_.input()) {}

    /// Each patch becomes a token: a convolution whose windows do not overlap.
    void patches() {
        Conv2dOptions patch;
        patch.out = options_.dim;
        patch.kernel_h = patch.kernel_w = patch.stride_h = patch.stride_w = options_.patch;
        append("patch_embed.proj", make_conv2d(shape(), patch));
        append("patch_embed", make_tokens(shape()));
        append("", make_embed_tokens(shape(), options_.class_token));
    }

    void block(std::int64_t index) {
        const std::string name = "blocks." + std::to_string(index) + ".";
        // torch.linspace(0, drop_path, depth)
        const double probability = options_.depth > 1 ? options_.drop_path * static_cast<double>(index) /
                                                            static_cast<double>(options_.depth - 1)
                                                      : 0;
        const auto number = 2 * static_cast<std::uint64_t>(index);

        NodeId before = last_;
        norm(name + "norm1");
        append(name + "attn.qkv", linear(shape(), 3 * options_.dim));
        append(name + "attn", make_attention(shape(), options_.heads));
        // What follows treats each token on its own, and of the last block's only the class token is read:
        // the others have done their part as keys and values, and their gradients from here on are zero.
        if (options_.class_token && index + 1 == options_.depth) {
            const NodeId attended = last_;
            last_ = before;
            append(name + "class_token", make_pool_tokens(shape(), TokenPooling::first));
            before = std::exchange(last_, attended);
            append(name + "attn.class_token", make_pool_tokens(shape(), TokenPooling::first));
        }
        append(name + "attn.proj", linear(shape(), options_.dim));
        end_branch(name, "1", before, probability, number);

        const NodeId between = last_;
        norm(name + "norm2");
        append(name + "mlp.fc1", linear(shape(), hidden()));
        append(name + "mlp.act", make_gelu(shape(), options_.gelu));
        append(name + "mlp.fc2", linear(shape(), options_.dim));
        end_branch(name, "2", between, probability, number + 1);
    }

    GraphSpec head(std::int64_t classes) {
        norm("norm");
        if (!options_.class_token) append("pool", make_pool_tokens(shape(), TokenPooling::mean));
        append("head", linear(shape(), classes));
        return std::move(graph_);
    }

  private:
    const Shape& shape() const { return graph_.shape(last_); }
    std::int64_t hidden() const {
        return static_cast<std::int64_t>(static_cast<double>(options_.dim) * options_.mlp_ratio);
    }
    void append(const std::string& name, std::unique_ptr<Layer> layer) {
        last_ = graph_.add(name, std::move(layer), {last_});
    }
    void norm(const std::string& name) { append(name, make_layer_norm(shape(), options_.norm_eps)); }
    void end_branch(const std::string& block, const std::string& branch, NodeId shortcut, double probability,
                    std::uint64_t number) {
        if (probability > 0)
            append(block + "drop_path" + branch, make_drop_path(shape(), probability, number));
        // The branch first: the sum takes its memory, while the norm still needs the shortcut's in backward.
        last_ = graph_.add(block + "add" + branch, make_add(shape()), {last_, shortcut});
    }

    GraphSpec graph_;
    const VitOptions& options_;
    NodeId last_;
};

}  // namespace

GraphSpec build_vit(const Shape& input, const VitOptions& options, std::int64_t classes) {
    check(input, options);
    VitBuilder builder(input, options);
    builder.patches();
    for (std::int64_t i = 0; i < options.depth; ++i) builder.block(i);
    return builder.head(classes);
}

}  // namespace tutti
