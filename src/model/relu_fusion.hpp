#pragma once
// Which ReLUs are applied by their neighbours.

#include <vector>

#include "tutti/model/graph.hpp"

namespace tutti {

/// A ReLU behind which only max pooling reads is left to the pooling, and one that alone reads the layer
/// before it to that layer, where these can (Layer::fuse_relu_before, fuse_relu_behind). Its node stays,
/// under its name, as a view of its input. Values that are kept are not changed. Results have the same bits
/// as without.
void fuse_relus(std::vector<GraphSpec::Node>& nodes);

}  // namespace tutti
