#include "tutti/train/optimizer.hpp"

#include "tutti/base/error.hpp"

namespace tutti {

std::vector<DecaySegment> decay_segments(const std::vector<Parameter>& parameters, double weight_decay,
                                         bool decay_1d) {
    std::vector<DecaySegment> segments;
    for (const Parameter& parameter : parameters) {
        const double decay = decay_1d || parameter.spec.file_shape.rank() > 1 ? weight_decay : 0.0;
        // Up to the end of this parameter, the gap before it included: gaps are zero and stay zero.
        const std::int64_t end = parameter.offset + parameter.count;
        if (!segments.empty() && segments.back().weight_decay == decay)
            segments.back().count = end - segments.back().offset;
        else
            segments.push_back({parameter.offset, parameter.count, decay});
    }
    return segments;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& config, const Graph& graph, Device& device) {
    if (config.name == "sgd") return make_sgd(config, graph, device);
    if (config.name == "adamw") return make_adamw(config, graph, device);
    throw UsageError("optim.name is " + config.name + ", which this version does not carry out",
                     "use sgd or adamw");
}

}  // namespace tutti
