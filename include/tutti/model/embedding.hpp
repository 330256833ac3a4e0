#pragma once
// What a model makes of a sample before it decides: the input of its last linear layer.

#include "tutti/model/graph.hpp"

namespace tutti {

/// Where the embedding of a graph is. A row in PyTorch's order: behind an image the arena's (H, W, C) becomes
/// (C, H, W), as torch.flatten gives it.
struct Embedding {
    NodeId node = 0;
    std::int64_t width = 0;
    ParameterSpec row;  ///< the order of one row: reorder_to_file
};

/// Whether the last linear layer is of samples: not where there is none, nor where it is of each token.
bool has_embedding(const GraphSpec& spec);

/// Finds the input of the last linear layer and keeps it (GraphSpec::keep). Call it before the graph is made.
/// Throws UsageError where has_embedding is false, with the reason.
Embedding keep_embedding(GraphSpec& spec);

}  // namespace tutti
