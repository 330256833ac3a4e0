#include "tutti/model/embedding.hpp"

#include "tutti/base/error.hpp"

namespace tutti {

Embedding keep_embedding(GraphSpec& spec) {
    for (NodeId node = spec.nodes().size(); node-- > 1;) {
        const GraphSpec::Node& last = spec.nodes()[node];
        if (last.layer->kind() != "linear") continue;
        if (spec.shape(last.inputs.front()).rank() == 2)
            throw UsageError("the last linear layer is of each token, so that no one vector is the embedding",
                             "leave out --embeddings");
        Embedding embedding;
        embedding.node = last.inputs.front();
        embedding.width = spec.shape(embedding.node).count();
        // One output's weights are ordered as the inputs are: the layer knows whether an image is behind
        // them.
        const ParameterSpec& weight = last.layer->parameters().front();
        embedding.row.name = "embedding";
        embedding.row.file_shape = {embedding.width};
        embedding.row.view = weight.view;
        embedding.row.view[0] = 1;
        embedding.row.permutation = weight.permutation;
        spec.keep(embedding.node);
        return embedding;
    }
    throw UsageError("the model has no linear layer, whose input would be the embedding",
                     "leave out --embeddings");
}

}  // namespace tutti
