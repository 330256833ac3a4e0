#include "value_types.hpp"

#include <algorithm>
#include <numeric>

namespace tutti {

std::vector<DType> value_types(const std::vector<GraphSpec::Node>& nodes, DType compute, DType stored) {
    // Sets of nodes of one type, each named by its first node.
    std::vector<std::size_t> set(nodes.size());
    std::iota(set.begin(), set.end(), std::size_t{0});
    const auto name = [&](std::size_t node) {
        while (set[node] != node) node = set[node];
        return node;
    };
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        if (nodes[i].layer->converts()) continue;
        for (const NodeId input : nodes[i].inputs) {
            const std::size_t one = name(i), other = name(input);
            set[std::max(one, other)] = std::min(one, other);
        }
    }
    std::vector<DType> types(nodes.size(), stored);
    for (std::size_t i = 0; i < nodes.size(); ++i)
        if (name(i) == name(nodes.size() - 1)) types[i] = compute;
    return types;
}

}  // namespace tutti
