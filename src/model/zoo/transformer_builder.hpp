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

class TransformerBuilder {
  public:
    /// UsageErrors name the keys of `model`.
    TransformerBuilder(const Shape& input, const TransformerShape& shape);

    const Shape& last() const { return graph_.shape(last_); }
    void append(const std::string& name, std::unique_ptr<Layer> layer) {
        last_ = graph_.add(name, std::move(layer), {last_});
    }
    void norm(const std::string& name) { append(name, make_layer_norm(last(), shape_.norm_eps)); }
    /// Weights N(0, (0.02·scale)²), cut at ±2, bias 0, as timm and VideoMAE begin (init_weights_vit_timm).
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
    void end_branch(const std::string& block, const std::string& branch, NodeId shortcut, double probability,
                    std::uint64_t number);

    TransformerShape shape_;
    GraphSpec graph_;
    NodeId last_;
};

}  // namespace tutti
