// A transformer over the seconds of a video, after Repurpose (Wu et al. 2024, "Video Repurposing from
// User Generated Content: A Large-scale Dataset and Benchmark"): of each second whether it is inside of a
// segment that is worth showing, and where that begins and ends.

#include <cmath>
#include <numeric>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/layers_transformer.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

constexpr double norm_eps = 1e-5;

/// A graph of values {T, C} whose layers are named as torch.nn.TransformerEncoderLayer names its own.
class Builder {
  public:
    Builder(const Shape& input, const TemporalTransformerOptions& options)
        : options_(options), graph_(input), mask_(columns("mask", input[1] - 1, 1)) {}

    std::int64_t hidden() const {
        return std::llround(static_cast<double>(options_.dim) * options_.mlp_ratio);
    }
    NodeId columns(const std::string& name, std::int64_t first, std::int64_t count) {
        return graph_.add(name, make_columns(graph_.shape(graph_.input()), first, count), {graph_.input()});
    }
    NodeId linear(const std::string& name, NodeId x, std::int64_t out) {
        return graph_.add(name, make_linear(graph_.shape(x), out, true), {x});
    }
    /// Between two linear layers.
    NodeId relu(const std::string& name, NodeId x) {
        return graph_.add(name, make_relu(graph_.shape(x)), {x});
    }
    NodeId norm(const std::string& name, NodeId x) {
        return graph_.add(name, make_layer_norm(graph_.shape(x), norm_eps), {x});
    }
    NodeId positions(const std::string& name, NodeId x) {
        return graph_.add(name, make_sequence_positions(graph_.shape(x)), {x});
    }
    NodeId joined(const std::string& name, const std::vector<NodeId>& values) {
        std::vector<Shape> shapes;
        for (const NodeId value : values) shapes.push_back(graph_.shape(value));
        return graph_.add(name, make_concatenation(shapes), values);
    }

    /// Pre-norm layers in which a sequence attends to itself.
    NodeId encoder(const std::string& name, NodeId x, std::int64_t depth) {
        for (std::int64_t i = 0; i < depth; ++i) {
            const std::string layer = name + ".layers." + std::to_string(i) + ".";
            const NodeId normed = norm(layer + "norm1", x);
            const NodeId packed = input_projection(layer + "self_attn", normed);
            x = feed_forward(layer, sum(layer + "add1", attended(layer + "self_attn", packed), x));
        }
        return x;
    }
    /// The same in which it attends to another one: queries of its own, keys and values of the other.
    NodeId cross(const std::string& name, NodeId x, NodeId other, std::int64_t depth) {
        for (std::int64_t i = 0; i < depth; ++i) {
            const std::string layer = name + ".layers." + std::to_string(i) + ".";
            const NodeId own = norm(layer + "norm1", x), others = norm(layer + "norm_kv", other);
            const NodeId queries = linear(layer + "cross_attn.q_proj", own, options_.dim);
            const NodeId rest = linear(layer + "cross_attn.kv_proj", others, 2 * options_.dim);
            const NodeId packed = joined(layer + "cross_attn.packed", {queries, rest});
            x = feed_forward(layer, sum(layer + "add1", attended(layer + "cross_attn", packed), x));
        }
        return x;
    }

    /// {T, 4}: the outputs of SegmentLoss.
    GraphSpec finish(NodeId x, std::int64_t mask_column) {
        x = norm("norm", x);
        const NodeId logit = linear("classification", x, 1);
        const NodeId offsets = relu("offsets.relu", linear("offsets", x, 2));
        // A copy of its own: the outputs may be of another type than what attention reads.
        joined("outputs", {logit, offsets, columns("exists", mask_column, 1)});
        return std::move(graph_);
    }

  private:
    /// Of queries, keys and values, with the names of torch.nn.MultiheadAttention.
    NodeId input_projection(const std::string& name, NodeId x) {
        const Shape tokens = graph_.shape(x), weight{3 * options_.dim, options_.dim}, bias{3 * options_.dim};
        const double bound = std::sqrt(6.0 / static_cast<double>(4 * options_.dim));  // xavier_uniform_
        return graph_.add(
            name,
            make_linear(tokens, {"in_proj_weight", weight, weight, {}, Initializer::uniform(bound)},
                        {"in_proj_bias", bias, bias, {}, Initializer::constant(0)}),
            {x});
    }
    NodeId sum(const std::string& name, NodeId branch, NodeId shortcut) {
        // The branch first: the sum takes its memory, while a norm still needs the shortcut's in backward.
        return graph_.add(name, make_add(graph_.shape(branch)), {branch, shortcut});
    }
    NodeId attended(const std::string& name, NodeId packed) {
        const NodeId heads =
            graph_.add(name, make_masked_attention(graph_.shape(packed), options_.heads), {packed, mask_});
        return linear(name + ".out_proj", heads, options_.dim);
    }
    NodeId feed_forward(const std::string& layer, NodeId x) {
        const NodeId inner =
            relu(layer + "relu", linear(layer + "linear1", norm(layer + "norm2", x), hidden()));
        return sum(layer + "add2", linear(layer + "linear2", inner, options_.dim), x);
    }

    const TemporalTransformerOptions& options_;
    GraphSpec graph_;
    NodeId mask_;
};

void check(const Shape& input, const TemporalTransformerOptions& o) {
    if (input.rank() != 2 || input[1] < 2)
        throw UsageError("model temporal_transformer needs sequences, but the data have samples of shape " +
                             to_string(input),
                         "pack them with trainer pack features --sequences");
    const std::int64_t given = std::accumulate(o.features.begin(), o.features.end(), std::int64_t{0});
    if (!o.features.empty() && given != input[1] - 1)
        throw UsageError("model.features has " + std::to_string(given) +
                             " features of a second, but the data "
                             "have " +
                             std::to_string(input[1] - 1),
                         "give the width of each folder that was packed, in its order");
    if (o.cross && o.features.size() != 3)
        throw UsageError(
            "model.fusion is cross, but model.features has " + std::to_string(o.features.size()) + " widths",
            "give those of picture, sound and text: model.features: [512, 2048, 384]");
    if (o.dim % o.heads != 0)
        throw UsageError("model.dim is " + std::to_string(o.dim) + ", which " + std::to_string(o.heads) +
                             " heads cannot share evenly",
                         "let model.heads divide model.dim");
    if (static_cast<double>(o.dim) * o.mlp_ratio < 1)
        throw UsageError("model.dim times model.mlp_ratio is below 1, so the hidden layers have no width",
                         "set model.mlp_ratio to 4, for example");
}

}  // namespace

GraphSpec build_temporal_transformer(const Shape& input, const TemporalTransformerOptions& o) {
    check(input, o);
    const std::int64_t features = input[1] - 1;
    Builder builder(input, o);
    if (!o.cross) {
        const NodeId all = builder.linear("embed", builder.columns("features", 0, features), o.dim);
        const NodeId placed = builder.positions("positions", builder.norm("embed_norm", all));
        return builder.finish(builder.encoder("encoder", placed, o.depth), features);
    }
    std::int64_t first = 0;
    const auto encoded = [&](const std::string& name, std::size_t feature, std::int64_t depth) {
        const std::int64_t width = o.features[feature];
        NodeId x = builder.columns(name + ".features", first, width);
        first += width;
        x = builder.relu(name + ".embed.relu", builder.linear(name + ".embed.0", x, builder.hidden()));
        x = builder.positions(name + ".positions", builder.linear(name + ".embed.1", x, o.dim));
        return builder.encoder(name + ".encoder", x, depth);
    };
    NodeId picture = encoded("picture", 0, o.depth), sound = encoded("sound", 1, o.depth);
    const NodeId text = encoded("text", 2, o.text_depth);
    picture = builder.cross("picture_text", picture, text, o.cross_depth);
    sound = builder.cross("sound_text", sound, text, o.cross_depth);
    const NodeId seen = builder.cross("picture_sound", picture, sound, o.cross_depth);
    const NodeId heard = builder.cross("sound_picture", sound, picture, o.cross_depth);
    const NodeId both = builder.linear("fusion", builder.joined("both", {seen, heard}), o.dim);
    return builder.finish(both, features);
}

}  // namespace tutti
