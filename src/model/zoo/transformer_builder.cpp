#include "transformer_builder.hpp"

#include <cmath>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {

namespace {

void check(const TransformerShape& shape, const std::string& key) {
    if (shape.depth < 1)
        throw UsageError(key + "depth is " + std::to_string(shape.depth), "it must be at least 1");
    if (shape.heads < 1 || shape.dim % shape.heads != 0)
        throw UsageError(key + "dim is " + std::to_string(shape.dim) + ", which " +
                             std::to_string(shape.heads) + " heads cannot share evenly",
                         "let " + key + "heads divide " + key + "dim");
    if (static_cast<double>(shape.dim) * shape.mlp_ratio < 1)
        throw UsageError(key + "dim times model.mlp_ratio is below 1, so the hidden layers have no width",
                         "set model.mlp_ratio to 4, for example");
}

}  // namespace

TransformerBuilder::TransformerBuilder(const Shape& input, const TransformerShape& shape, LinearStart start)
    : shape_(shape), start_(start), graph_(input), last_(graph_.input()) {
    check(shape, "model.");
}

void TransformerBuilder::begin_part(const std::string& prefix, const TransformerShape& shape,
                                    const std::string& key) {
    check(shape, key);
    prefix_ = prefix;
    shape_ = shape;
}

Initializer TransformerBuilder::weight(std::int64_t in, std::int64_t out, double scale) const {
    if (start_ == LinearStart::xavier_uniform)
        return Initializer::uniform(std::sqrt(6.0 / static_cast<double>(in + out)));
    return Initializer::truncated_normal(0.02 * scale, 2 * scale);
}

void TransformerBuilder::linear(const std::string& name, std::int64_t out, double scale) {
    append(prefix_ + name,
           make_linear(last(), out, true, {}, {weight(last()[1], out, scale), Initializer::constant(0)}));
}

void TransformerBuilder::block(const Block& block) {
    const std::string name = "blocks." + std::to_string(block.index) + ".";
    // torch.linspace(0, drop_path, depth)
    const double probability = shape_.depth > 1 ? shape_.drop_path * static_cast<double>(block.index) /
                                                      static_cast<double>(shape_.depth - 1)
                                                : 0;

    NodeId before = last_;
    norm(name + "norm1");
    if (block.key_bias)
        linear(name + "attn.qkv", 3 * shape_.dim);
    else
        append(prefix_ + name + "attn", make_query_key_value(last(), weight(last()[1], 3 * shape_.dim)));
    append(prefix_ + name + "attn", make_attention(last(), shape_.heads));
    // What follows treats each token on its own, and of the last block's only the class token is read:
    // the others have done their part as keys and values, and their gradients from here on are zero.
    if (block.first_token_only) {
        const NodeId attended = last_;
        last_ = before;
        append(prefix_ + name + "class_token", make_pool_tokens(last(), TokenPooling::first));
        before = std::exchange(last_, attended);
        append(prefix_ + name + "attn.class_token", make_pool_tokens(last(), TokenPooling::first));
    }
    linear(name + "attn.proj", shape_.dim);
    end_branch(name, "1", before, probability);

    const NodeId between = last_;
    norm(name + "norm2");
    // Rounded: 48/11 of 1408 are 6144, in as many digits as people write.
    linear(name + "mlp.fc1", std::llround(static_cast<double>(shape_.dim) * shape_.mlp_ratio));
    append(prefix_ + name + "mlp.act", make_gelu(last(), shape_.gelu));
    linear(name + "mlp.fc2", shape_.dim);
    end_branch(name, "2", between, probability);
}

void TransformerBuilder::end_branch(const std::string& block, const std::string& branch, NodeId shortcut,
                                    double probability) {
    const std::uint64_t number = branches_++;
    if (probability > 0)
        append(prefix_ + block + "drop_path" + branch, make_drop_path(last(), probability, number));
    // The branch first: the sum takes its memory, while the norm still needs the shortcut's in backward.
    last_ = graph_.add(prefix_ + block + "add" + branch, make_add(last()), {last_, shortcut});
}

}  // namespace tutti
