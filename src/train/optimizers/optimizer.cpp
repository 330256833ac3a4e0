#include "tutti/train/optimizer.hpp"

#include <algorithm>

#include "../layer_groups.hpp"
#include "segments.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// By place in `parameters`; layers follow the order of registration, not that of the arena, and those that
/// are frozen count.
std::vector<double> rates(const std::vector<Parameter>& parameters, const std::vector<Parameter>& frozen,
                          double layer_decay) {
    std::vector<double> result(parameters.size(), 1.0);
    if (layer_decay == 1) return result;
    std::vector<std::string> names(parameters.size() + frozen.size());
    for (const auto* part : {&parameters, &frozen})
        for (const Parameter& parameter : *part) names.at(parameter.number) = parameter.name;
    const std::vector<double> scales = layer_scales(names, layer_decay);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = scales[parameters[i].number];
    return result;
}

}  // namespace

std::vector<DecaySegment> parameter_segments(const std::vector<Parameter>& parameters, double weight_decay,
                                             bool decay_1d, double layer_decay,
                                             const std::vector<Parameter>& frozen) {
    const std::vector<double> lr_scales = rates(parameters, frozen, layer_decay);
    std::vector<DecaySegment> segments;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const Parameter& parameter = parameters[i];
        const double decay = decay_1d || parameter.spec.file_shape.rank() > 1 ? weight_decay : 0.0;
        segments.push_back({parameter.offset, parameter.count, decay, lr_scales[i]});
    }
    return segments;
}

std::vector<DecaySegment> decay_segments(const std::vector<Parameter>& parameters, double weight_decay,
                                         bool decay_1d, double layer_decay,
                                         const std::vector<Parameter>& frozen) {
    std::vector<DecaySegment> merged;
    for (const DecaySegment& one :
         parameter_segments(parameters, weight_decay, decay_1d, layer_decay, frozen)) {
        // Up to the end of this parameter, the gap before it included: gaps are zero and stay zero.
        if (!merged.empty() && merged.back().weight_decay == one.weight_decay &&
            merged.back().lr_scale == one.lr_scale)
            merged.back().count = one.offset + one.count - merged.back().offset;
        else
            merged.push_back(one);
    }
    return merged;
}

std::vector<DecaySegment> update_segments(const OptimConfig& config, const Graph& graph, const Ops& ops) {
    return (ops.cache_bytes() > 0 ? parameter_segments : decay_segments)(
        graph.parameters(), config.weight_decay, config.decay_1d, config.layer_decay,
        graph.frozen_parameters());
}

OwnedRanges ranges_of(const Graph& graph, const OwnedRanges& owned) {
    if (!owned.empty()) return owned;
    return {{0, graph.parameter_arena().count()}};
}

std::vector<OwnedSegment> owned_segments(const std::vector<DecaySegment>& segments,
                                         const OwnedRanges& owned) {
    std::vector<OwnedSegment> result;
    std::int64_t state_begin = 0;
    for (const ArenaRange& range : owned) {
        for (const DecaySegment& segment : segments) {
            const std::int64_t first = std::max(segment.offset, range.offset);
            const std::int64_t end = std::min(segment.offset + segment.count, range.offset + range.count);
            if (first >= end) continue;
            OwnedSegment part{segment, state_begin + first - range.offset};
            part.offset = first;
            part.count = end - first;
            result.push_back(part);
        }
        state_begin += range.count;
    }
    return result;
}

OwnedState::OwnedState(const Graph& graph, Device& device, const OwnedRanges& owned,
                       const std::string& purpose) {
    const DType type = graph.parameter_arena().dtype;
    const std::int64_t count = total_count(ranges_of(graph, owned));
    memory_ = device.allocate(static_cast<std::size_t>(count) * size_of(type), purpose);
    arena_ = memory_.view(0, type, {count});
}

std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& config, const Graph& graph, Device& device,
                                          const OwnedRanges& owned) {
    if (config.name == "sgd") return make_sgd(config, graph, device, owned);
    if (config.name == "adam") return make_adam(config, graph, device, owned);
    if (config.name == "adamw") return make_adamw(config, graph, device, owned);
    if (config.name == "adadelta") return make_adadelta(config, graph, device, owned);
    if (config.name == "lamb" && !owned.empty())
        throw UsageError("optim.name is lamb, which needs whole parameters, but a rank owns parts of them",
                         "use distributed.strategy: ddp");
    if (config.name == "lamb") return make_lamb(config, graph, device);
    throw UsageError("optim.name is " + config.name + ", which this version does not carry out",
                     "use sgd, adam, adamw, adadelta or lamb");
}

}  // namespace tutti
