#include "tutti/train/optimizer.hpp"

#include <algorithm>

#include "../layer_groups.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// By place in `parameters`; layers follow the order of registration, not that of the arena.
std::vector<double> rates(const std::vector<Parameter>& parameters, double layer_decay) {
    std::vector<double> result(parameters.size(), 1.0);
    if (layer_decay == 1) return result;
    std::vector<std::size_t> order(parameters.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return parameters[a].number < parameters[b].number; });
    std::vector<std::string> names;
    for (const std::size_t i : order) names.push_back(parameters[i].name);
    const std::vector<double> scales = layer_scales(names, layer_decay);
    for (std::size_t k = 0; k < order.size(); ++k) result[order[k]] = scales[k];
    return result;
}

}  // namespace

std::vector<DecaySegment> parameter_segments(const std::vector<Parameter>& parameters, double weight_decay,
                                             bool decay_1d, double layer_decay) {
    const std::vector<double> lr_scales = rates(parameters, layer_decay);
    std::vector<DecaySegment> segments;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const Parameter& parameter = parameters[i];
        const double decay = decay_1d || parameter.spec.file_shape.rank() > 1 ? weight_decay : 0.0;
        segments.push_back({parameter.offset, parameter.count, decay, lr_scales[i]});
    }
    return segments;
}

std::vector<DecaySegment> decay_segments(const std::vector<Parameter>& parameters, double weight_decay,
                                         bool decay_1d, double layer_decay) {
    std::vector<DecaySegment> merged;
    for (const DecaySegment& one : parameter_segments(parameters, weight_decay, decay_1d, layer_decay)) {
        // Up to the end of this parameter, the gap before it included: gaps are zero and stay zero.
        if (!merged.empty() && merged.back().weight_decay == one.weight_decay &&
            merged.back().lr_scale == one.lr_scale)
            merged.back().count = one.offset + one.count - merged.back().offset;
        else
            merged.push_back(one);
    }
    return merged;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& config, const Graph& graph, Device& device) {
    if (config.name == "sgd") return make_sgd(config, graph, device);
    if (config.name == "adam") return make_adam(config, graph, device);
    if (config.name == "adamw") return make_adamw(config, graph, device);
    if (config.name == "adadelta") return make_adadelta(config, graph, device);
    if (config.name == "lamb") return make_lamb(config, graph, device);
    throw UsageError("optim.name is " + config.name + ", which this version does not carry out",
                     "use sgd, adam, adamw, adadelta or lamb");
}

}  // namespace tutti
