#pragma once
// What vision transformers have in common: a graph that grows behind its last node, and their blocks.

#include <memory>
#include <string>

#include "tutti/model/layers_transformer.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {

struct TransformerShape {
    std::int64_t dim, depth, heads;
    double mlp_ratio;
    GeluForm gelu;
    double norm_eps, drop_path;
};

/// How the weights of linear layers begin; biases at 0.
enum class LinearStart {
    truncated_normal,  ///< N(0, 0.02²), cut at ±2: timm (init_weights_vit_timm), VideoMAE's fine-tuning
    xavier_uniform,    ///< torch.nn.init.xavier_uniform_: VideoMAE's pre-training
};

class TransformerBuilder {
  public:
    /// UsageErrors name the keys of `model`.
    TransformerBuilder(const Shape& input, const TransformerShape& shape,
                       LinearStart start = LinearStart::truncated_normal);
    /// From here on blocks, norms and linear layers have names with `prefix` and this shape, whose keys begin
    /// with `key`: "model." or "model.decoder_".
    void begin_part(const std::string& prefix, const TransformerShape& shape,
                    const std::string& key = "model.");

    const Shape& last() const { return graph_.shape(last_); }
    void append(const std::string& name, std::unique_ptr<Layer> layer) {
        last_ = graph_.add(name, std::move(layer), {last_});
    }
    /// Of the model's input, beside the last value.
    NodeId of_input(const std::string& name, std::unique_ptr<Layer> layer) {
        return graph_.add(name, std::move(layer), {graph_.input()});
    }
    /// Of two values: the last one, and another.
    void join(const std::string& name, std::unique_ptr<Layer> layer, NodeId other) {
        last_ = graph_.add(name, std::move(layer), {last_, other});
    }
    void norm(const std::string& name) { append(prefix_ + name, make_layer_norm(last(), shape_.norm_eps)); }
    /// scale: of the standard deviation of a truncated normal, cut at ±2.
    void linear(const std::string& name, std::int64_t out, double scale = 1);

    struct Block {
        std::int64_t index = 0;
        bool key_bias = true;           ///< false: make_query_key_value
        bool first_token_only = false;  ///< behind its attention
    };
    /// Pre-norm attention and mlp, each with a shortcut around it, and with stochastic depth that rises
    /// linearly from 0 in the first block to drop_path in the last.
    void block(const Block& block);

    GraphSpec finish() { return std::move(graph_); }

  private:
    void end_branch(const std::string& block, const std::string& branch, NodeId shortcut, double probability);

    Initializer weight(std::int64_t in, std::int64_t out, double scale = 1) const;

    TransformerShape shape_;
    LinearStart start_;
    std::string prefix_;
    GraphSpec graph_;
    NodeId last_;
    std::uint64_t branches_ = 0;  ///< so far, of all parts: each drops samples by a stream of its own
};

}  // namespace tutti
