#include <cassert>

#include "tutti/model/graph.hpp"

namespace tutti {

GraphSpec::GraphSpec(const Shape& input) {
    nodes_.push_back({"input", nullptr, {}, input});
}

NodeId GraphSpec::add(const std::string& name, std::unique_ptr<Layer> layer, std::vector<NodeId> inputs) {
    for ([[maybe_unused]] const NodeId id : inputs) assert(id < nodes_.size());
    const Shape shape = layer->output_shape();
    nodes_.push_back({name, std::move(layer), std::move(inputs), shape});
    return nodes_.size() - 1;
}

}  // namespace tutti
