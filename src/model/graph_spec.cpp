#include <cassert>

#include "tutti/model/graph.hpp"

namespace tutti {

GraphSpec::GraphSpec(const Shape& input) {
    nodes_.emplace_back();
    nodes_.back().name = "input";
    nodes_.back().shape = input;
}

NodeId GraphSpec::add(const std::string& name, std::unique_ptr<Layer> layer, std::vector<NodeId> inputs) {
    for ([[maybe_unused]] const NodeId id : inputs) assert(id < nodes_.size());
    Node& node = nodes_.emplace_back();
    node.name = name;
    node.shape = layer->output_shape();
    node.layer = std::move(layer);
    node.inputs = std::move(inputs);
    return nodes_.size() - 1;
}

bool GraphSpec::Node::is_trained() const {
    if (!layer) return false;
    for (std::size_t k = 0; k < layer->parameters().size(); ++k)
        if (!is_frozen(k)) return true;
    return false;
}

}  // namespace tutti
