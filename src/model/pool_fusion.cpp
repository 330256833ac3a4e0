#include "pool_fusion.hpp"

#include "fused_layer.hpp"
#include "tutti/model/freezing.hpp"

namespace tutti {

void fuse_poolings(std::vector<GraphSpec::Node>& nodes, Ops& ops) {
    std::vector<std::size_t> readers(nodes.size(), 0);
    for (const auto& node : nodes)
        for (const NodeId input : node.inputs) ++readers[input];
    const auto read_by_one = [&](NodeId node) { return readers[node] == 1 && !nodes[node].kept; };

    const std::vector<bool> trained = depends_on_trained(nodes);
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        const Pool2dShape* const pool = nodes[i].layer->max_pooling();
        if (!pool) continue;
        NodeId source = nodes[i].inputs.front(), relu = 0;
        if (source != 0 && nodes[source].layer->kind() == "relu" && nodes[source].layer->is_view() &&
            read_by_one(source)) {
            relu = source;
            source = nodes[relu].inputs.front();
        }
        if (source == 0 || !read_by_one(source)) continue;
        const bool input_gradient = trained[nodes[source].inputs.front()];
        if (!nodes[source].layer->fuse_pooling_behind(*pool, ops, input_gradient)) continue;
        const Shape shape = nodes[source].shape = nodes[source].layer->output_shape();
        if (relu != 0) {
            nodes[relu].layer = std::make_unique<FusedLayer>("relu", shape);
            nodes[relu].shape = shape;
        }
        nodes[i].layer = std::make_unique<FusedLayer>(nodes[i].layer->kind(), shape);
    }
}

}  // namespace tutti
