#pragma once
// In which type each value of a graph lies in memory.

#include <vector>

#include "tutti/model/graph.hpp"

namespace tutti {

/// By node, of the value and its gradient: `stored`, but `compute` for the output, which the loss reads and
/// whose gradient it writes, and for all values that layers tie to it, because their inputs and outputs are
/// of one type (all layers but those of Layer::converts()).
std::vector<DType> value_types(const std::vector<GraphSpec::Node>& nodes, DType compute, DType stored);

}  // namespace tutti
