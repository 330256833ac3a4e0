#include "tutti/model/embedding.hpp"

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// Null where there is none.
const GraphSpec::Node* last_linear(const GraphSpec& spec) {
    for (NodeId node = spec.nodes().size(); node-- > 1;)
        if (spec.nodes()[node].layer->kind() == "linear") return &spec.nodes()[node];
    return nullptr;
}

bool is_of_tokens(const GraphSpec& spec, const GraphSpec::Node& node) {
    return spec.shape(node.inputs.front()).rank() == 2;
}

}  // namespace

bool has_embedding(const GraphSpec& spec) {
    const GraphSpec::Node* last = last_linear(spec);
    return last && !is_of_tokens(spec, *last);
}

Embedding keep_embedding(GraphSpec& spec) {
    const GraphSpec::Node* last = last_linear(spec);
    if (!last)
        throw UsageError("the model has no linear layer, whose input would be the embedding",
                         "leave out --embeddings");
    if (is_of_tokens(spec, *last))
        throw UsageError("the last linear layer is of each token, so that no one vector is the embedding",
                         "leave out --embeddings");
    Embedding embedding;
    embedding.node = last->inputs.front();
    embedding.width = spec.shape(embedding.node).count();
    // One output's weights are ordered as the inputs are: the layer knows whether an image is behind them.
    const ParameterSpec& weight = last->layer->parameters().front();
    embedding.row.name = "embedding";
    embedding.row.file_shape = {embedding.width};
    embedding.row.view = weight.view;
    embedding.row.view[0] = 1;
    embedding.row.permutation = weight.permutation;
    spec.keep(embedding.node);
    return embedding;
}

}  // namespace tutti
