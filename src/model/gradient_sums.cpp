#include "gradient_sums.hpp"

#include <algorithm>

#include "tutti/model/freezing.hpp"

namespace tutti {

void fuse_gradient_sums(std::vector<GraphSpec::Node>& nodes, const std::vector<DType>& types, Ops& ops) {
    std::vector<std::size_t> last_reader(nodes.size(), 0);
    for (std::size_t i = 1; i < nodes.size(); ++i)
        for (const NodeId input : nodes[i].inputs) last_reader[input] = i;
    const std::vector<bool> trained = depends_on_trained(nodes);
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        GraphSpec::Node& node = nodes[i];
        const NodeId input = node.inputs.front();
        if (!trained[input] || last_reader[input] == i || std::ranges::count(node.inputs, input) > 1)
            continue;
        node.adds_gradient = node.layer->fuse_gradient_sum(ops, types[input]);
    }
}

}  // namespace tutti
