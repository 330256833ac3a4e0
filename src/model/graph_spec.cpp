#include <fmt/format.h>

#include <cassert>

#include "tutti/base/error.hpp"
#include "tutti/model/graph.hpp"

namespace tutti {
namespace {

/// Of one value of one sample, or of one parameter: 256 TiB in fp32. Sums and bytes of what has no more stay
/// in 64 bits; whether there is as much memory is for the device to say.
constexpr std::int64_t most_elements = std::int64_t{1} << 46;

void require_countable(const std::string& layer, const std::string& what, const Shape& shape) {
    std::int64_t count = 1;
    for (const std::int64_t dim : shape)
        if (__builtin_mul_overflow(count, dim, &count) || count > most_elements)
            throw UsageError(
                fmt::format("{}{} has the shape {}, which no memory holds", layer, what, to_string(shape)),
                "make the model smaller");
}

}  // namespace

GraphSpec::GraphSpec(const Shape& input) {
    require_countable("", "the model's input", input);
    nodes_.emplace_back();
    nodes_.back().name = "input";
    nodes_.back().shape = input;
}

NodeId GraphSpec::add(const std::string& name, std::unique_ptr<Layer> layer, std::vector<NodeId> inputs) {
    for ([[maybe_unused]] const NodeId id : inputs) assert(id < nodes_.size());
    const std::string subject = fmt::format("layer {} ({}): ", name, layer->kind());
    require_countable(subject, "the output of a sample", layer->output_shape());
    for (const ParameterSpec& parameter : layer->parameters())
        require_countable(subject, parameter.name, parameter.file_shape);
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
