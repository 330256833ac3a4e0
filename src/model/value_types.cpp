#include "value_types.hpp"

#include <algorithm>
#include <numeric>

namespace tutti {

std::vector<DType> value_types(const std::vector<GraphSpec::Node>& nodes, const OfferedTypes& offered) {
    // Sets of nodes of one type, each named by its first node.
    std::vector<std::size_t> set(nodes.size());
    std::iota(set.begin(), set.end(), std::size_t{0});
    const auto name = [&](std::size_t node) {
        while (set[node] != node) node = set[node];
        return node;
    };
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        for (std::size_t k = nodes[i].layer->converts() ? 1 : 0; k < nodes[i].inputs.size(); ++k) {
            const std::size_t one = name(i), other = name(nodes[i].inputs[k]);
            set[std::max(one, other)] = std::min(one, other);
        }
    }
    std::vector<DType> type_of_set(nodes.size(), offered.images);
    type_of_set[name(0)] = offered.activations;  // the input, which is no layer's output
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        if (!nodes[i].layer->writes_images()) type_of_set[name(i)] = offered.activations;
        if (nodes[i].layer->reads_images()) continue;
        for (const NodeId input : nodes[i].inputs) type_of_set[name(input)] = offered.activations;
    }
    type_of_set[name(nodes.size() - 1)] = offered.compute;
    std::vector<DType> types;
    for (std::size_t i = 0; i < nodes.size(); ++i) types.push_back(type_of_set[name(i)]);
    return types;
}

}  // namespace tutti
