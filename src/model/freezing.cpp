#include "tutti/model/freezing.hpp"

#include <algorithm>
#include <vector>

#include "tutti/base/error.hpp"
#include "tutti/base/named_tensor.hpp"
#include "tutti/base/suggest.hpp"

namespace tutti {
namespace {

std::vector<std::string> names_of_parameters(const GraphSpec& spec) {
    std::vector<std::string> names;
    for (const GraphSpec::Node& node : spec.nodes())
        if (node.layer)
            for (const ParameterSpec& one : node.layer->parameters())
                names.push_back(GraphSpec::full_name(node, one));
    return names;
}

void check_part(const std::string& part, const std::vector<std::string>& names, const std::string& key) {
    if (std::ranges::any_of(names, [&](const std::string& name) { return names_tensor(part, name); })) return;
    const std::string near = nearest_part(part, names);
    throw UsageError(
        key + ": " + part + " names no weights of the model",
        near.empty() ? "trainer inspect -c FILE lists the model's layers" : "did you mean " + near + "?");
}

}  // namespace

void freeze(GraphSpec& spec, std::span<const std::string> parts, bool all_but, const std::string& key) {
    if (parts.empty()) return;
    const std::vector<std::string> names = names_of_parameters(spec);
    for (const std::string& part : parts) check_part(part, names, key);
    bool trains = false;
    for (GraphSpec::Node& node : spec.nodes()) {
        if (!node.layer) continue;
        node.frozen.clear();
        for (const ParameterSpec& one : node.layer->parameters()) {
            const std::string name = GraphSpec::full_name(node, one);
            const bool named =
                std::ranges::any_of(parts, [&](const std::string& part) { return names_tensor(part, name); });
            node.frozen.push_back(named != all_but);
        }
        trains = trains || node.is_trained();
    }
    if (!trains)
        throw UsageError(key + " leaves nothing to train",
                         "leave out the parts that are to learn, say the head of a classifier");
}

void freeze_statistics(GraphSpec& spec, const std::string& key) {
    bool any = false;
    for (GraphSpec::Node& node : spec.nodes())
        if (node.layer && !node.layer->parameters().empty() && !node.is_trained())
            any = node.layer->freeze_statistics() || any;
    if (!any)
        throw UsageError(
            key + ": no batch norm of the model is frozen",
            "freeze weight and bias of those that are to keep their statistics, or leave it out");
}

std::vector<bool> depends_on_trained(const std::vector<GraphSpec::Node>& nodes) {
    std::vector<bool> result(nodes.size(), false);
    for (std::size_t i = 1; i < nodes.size(); ++i)
        result[i] = nodes[i].is_trained() ||
                    std::ranges::any_of(nodes[i].inputs, [&](NodeId input) { return result[input]; });
    return result;
}

}  // namespace tutti
