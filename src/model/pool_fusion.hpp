#pragma once
// Which max poolings are done by the layer before them.

#include <vector>

#include "tutti/model/graph.hpp"

namespace tutti {

/// Max pooling that alone reads a layer (or alone reads the ReLU behind it, if that is the pooling's by now:
/// relu_fusion.hpp goes before) is left to that layer, where it and the backend can
/// (Layer::fuse_pooling_behind). The nodes stay, under their names, as views; the layer's shape, and the
/// ReLU's, become the pooling's. Values that are kept are not changed. Sums are made in another order than
/// without.
void fuse_poolings(std::vector<GraphSpec::Node>& nodes, Ops& ops);

}  // namespace tutti
