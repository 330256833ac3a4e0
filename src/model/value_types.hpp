#pragma once
// In which type each value of a graph lies in memory.

#include <vector>

#include "tutti/model/graph.hpp"

namespace tutti {

/// What a device offers (Ops): the type that products and sums are computed in, that in which it keeps all
/// values, and that in which it keeps those which Layer::reads_images() and writes_images() speak of.
struct OfferedTypes {
    DType compute, activations, images;
};
/// By node, of the value and its gradient. Layers whose inputs and outputs are of one type (all but those of
/// Layer::converts()) tie values together. Those tied to the output, which the loss reads and whose gradient
/// it writes, are `compute`; others are `images` where all layers that read or write them take that, else
/// `activations`.
std::vector<DType> value_types(const std::vector<GraphSpec::Node>& nodes, const OfferedTypes& offered);

}  // namespace tutti
