#pragma once
// Which ReLUs and sums are applied by their neighbours.

#include <vector>

#include "tutti/model/graph.hpp"

namespace tutti {

/// A sum that alone reads the later of its two values is left to the layer that computes this one, where that
/// can (Layer::fuse_sum_behind): the other value becomes its second input. Its node stays, under its name, as
/// a view. To be called before fuse_relus. Results have the same bits as without.
void fuse_sums(std::vector<GraphSpec::Node>& nodes);

/// A ReLU behind which only max pooling reads is left to the pooling, and one that alone reads the layer
/// before it to that layer, where these can (Layer::fuse_relu_before, fuse_relu_behind). Its node stays,
/// under its name, as a view of its input. Values that are kept are not changed. Results have the same bits
/// as without.
void fuse_relus(std::vector<GraphSpec::Node>& nodes, Ops& ops);

}  // namespace tutti
