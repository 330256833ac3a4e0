#pragma once
// Which GELUs are computed by the linear layers beside them.

#include <vector>

#include "tutti/model/graph.hpp"

namespace tutti {

/// A GELU between two linear layers that has no other neighbours is left to them, where they and `ops` can
/// (Layer::fuse_gelu_behind, fuse_gelu_before): its forward to the one before it, its backward to the one
/// behind it; not in graphs that recompute: what the layer before it keeps would not be there yet when the
/// one behind it needs it. Or it is left to the linear layer before it alone, whose only reader it is
/// (Layer::fuse_all_of_gelu_behind). Its node stays, under its name, as a view. Values that are kept are not
/// changed.
void fuse_gelus(std::vector<GraphSpec::Node>& nodes, const Ops& ops, bool recomputes);

/// The layer whose state the node gets as LayerCall::gelu_input; 0: none.
NodeId source_of_fused_gelu(const std::vector<GraphSpec::Node>& nodes, NodeId node);

}  // namespace tutti
