#pragma once
// Which layers add to a gradient that another reader of the same value has written.

#include <vector>

#include "tutti/model/graph.hpp"

namespace tutti {

/// Of a value with several readers, the one that runs first in backward writes the gradient; the others that
/// can (Layer::fuse_gradient_sum, and only for their first input) add to it from now on, and say so in
/// GraphSpec::Node::adds_gradient. types: of the values, by node. To be called when all other fusing is done.
void fuse_gradient_sums(std::vector<GraphSpec::Node>& nodes, const std::vector<DType>& types, Ops& ops);

}  // namespace tutti
