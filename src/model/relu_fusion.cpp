#include "relu_fusion.hpp"

#include <algorithm>

#include "fused_layer.hpp"

namespace tutti {
namespace {

/// How many inputs of other nodes each node is, and the last of these nodes.
struct Readers {
    explicit Readers(const std::vector<GraphSpec::Node>& nodes)
        : count(nodes.size(), 0), last(nodes.size(), 0) {
        for (std::size_t i = 1; i < nodes.size(); ++i)
            for (const NodeId input : nodes[i].inputs) {
                ++count[input];
                last[input] = i;
            }
    }
    std::vector<std::size_t> count, last;
};

}  // namespace

void fuse_sums(std::vector<GraphSpec::Node>& nodes) {
    const Readers readers(nodes);
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        GraphSpec::Node& sum = nodes[i];
        if (sum.layer->kind() != "add" || sum.inputs.size() != 2) continue;
        // In the order of the nodes the other value is there when the later one is computed.
        const auto [other, later] = std::minmax(sum.inputs[0], sum.inputs[1]);
        if (later == other || readers.count[later] != 1 || nodes[later].kept ||
            nodes[later].inputs.size() != 1 || !nodes[later].layer->fuse_sum_behind())
            continue;
        nodes[later].inputs.push_back(other);
        sum.inputs = {later};
        sum.layer = std::make_unique<FusedLayer>("add", sum.shape);
    }
}

void fuse_relus(std::vector<GraphSpec::Node>& nodes, Ops& ops) {
    const Readers readers(nodes);
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        if (nodes[i].layer->kind() != "relu") continue;
        const bool by_reader =
            readers.count[i] == 1 && !nodes[i].kept && nodes[readers.last[i]].layer->fuse_relu_before();
        const auto by_source = [&] {
            // Past what is applied by the layer before it.
            NodeId source = nodes[i].inputs.front();
            const auto alone = [&] {
                return source != 0 && readers.count[source] == 1 && !nodes[source].kept;
            };
            while (alone() && dynamic_cast<const FusedLayer*>(nodes[source].layer.get()))
                source = nodes[source].inputs.front();
            return alone() && nodes[source].layer->fuse_relu_behind(ops);
        };
        if (by_reader || by_source()) nodes[i].layer = std::make_unique<FusedLayer>("relu", nodes[i].shape);
    }
}

}  // namespace tutti
