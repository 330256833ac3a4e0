#include "ready_order.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tutti {

std::string ready_order_difference(Communicator& communicator, const Graph& graph,
                                   std::span<const std::size_t> order) {
    const std::vector<std::int64_t> mine(order.begin(), order.end());
    std::vector<std::int64_t> first = mine;
    communicator.broadcast(view_of(std::span(first)), 0).wait();
    double others = mine == first ? 0 : 1;
    communicator.all_reduce(view_of(std::span(&others, 1)), ReduceOp::sum).wait();

    const auto name = [&](std::int64_t parameter) {
        return graph.parameters()[static_cast<std::size_t>(parameter)].name;
    };
    std::string text;
    for (std::size_t i = 0; i < first.size() && text.empty(); ++i)
        if (first[i] != static_cast<std::int64_t>(i))
            text = "backward finished " + name(first[i]) + " before " + name(static_cast<std::int64_t>(i)) +
                   ", against the order of the gradient arena";
    if (others > 0)
        text += (text.empty() ? "" : "; ") + std::to_string(static_cast<int>(others)) +
                " ranks finished their gradients in another order than rank 0";
    return text;
}

}  // namespace tutti
