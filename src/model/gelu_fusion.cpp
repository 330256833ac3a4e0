#include "gelu_fusion.hpp"

#include "fused_layer.hpp"
#include "tutti/model/freezing.hpp"

namespace tutti {

void fuse_gelus(std::vector<GraphSpec::Node>& nodes, const Ops& ops, bool recomputes) {
    std::vector<std::size_t> readers(nodes.size(), 0), reader(nodes.size(), 0);
    for (std::size_t i = 1; i < nodes.size(); ++i)
        for (const NodeId input : nodes[i].inputs) {
            ++readers[input];
            reader[input] = i;
        }
    const auto read_by_one = [&](NodeId node) { return readers[node] == 1 && !nodes[node].kept; };
    const std::vector<bool> trained = depends_on_trained(nodes);
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        const GeluForm* const form = nodes[i].layer->gelu_form();
        if (!form) continue;
        const NodeId source = nodes[i].inputs.front();
        if (source == 0 || !read_by_one(source)) continue;
        Layer& before = *nodes[source].layer;
        if (before.kind() != "linear") continue;
        const auto by_both_neighbours = [&] {
            // Backward of the one behind it gives the gradient of what the one before it gave.
            if (!trained[source] || recomputes || !ops.fuses_gelu(*form) || !read_by_one(i)) return false;
            Layer& behind = *nodes[reader[i]].layer;
            if (nodes[reader[i]].inputs.front() != i || behind.kind() != "linear") return false;
            // The one before it has neither ReLU nor sum behind it, and so cannot refuse.
            return behind.fuse_gelu_before(*form) && before.fuse_gelu_behind(*form);
        };
        const auto by_the_one_before = [&] {
            return !nodes[i].kept && ops.fuses_gelu_behind(*form) && before.fuse_all_of_gelu_behind(*form);
        };
        if (by_both_neighbours() || by_the_one_before())
            nodes[i].layer = std::make_unique<FusedLayer>("gelu", nodes[i].shape);
    }
}

NodeId source_of_fused_gelu(const std::vector<GraphSpec::Node>& nodes, NodeId node) {
    const NodeId gelu = nodes[node].inputs.front();
    const bool fused = gelu != 0 && nodes[gelu].layer->kind() == "gelu" && nodes[gelu].layer->is_view();
    return fused ? nodes[gelu].inputs.front() : 0;
}

}  // namespace tutti
