#include "relu_fusion.hpp"

#include "fused_layer.hpp"

namespace tutti {

void fuse_relus(std::vector<GraphSpec::Node>& nodes) {
    std::vector<std::size_t> readers(nodes.size(), 0), last_reader(nodes.size(), 0);
    for (std::size_t i = 1; i < nodes.size(); ++i)
        for (const NodeId input : nodes[i].inputs) {
            ++readers[input];
            last_reader[input] = i;
        }
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        if (nodes[i].layer->kind() != "relu") continue;
        const NodeId source = nodes[i].inputs.front();
        const bool by_reader =
            readers[i] == 1 && !nodes[i].kept && nodes[last_reader[i]].layer->fuse_relu_before();
        const bool fused = by_reader || (source != 0 && readers[source] == 1 && !nodes[source].kept &&
                                         nodes[source].layer->fuse_relu_behind());
        if (fused) nodes[i].layer = std::make_unique<FusedLayer>("relu", nodes[i].shape);
    }
}

}  // namespace tutti
