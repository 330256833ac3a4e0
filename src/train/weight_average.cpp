#include "tutti/train/weight_average.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {

double ema_decay(const EmaConfig& config, std::int64_t step) {
    if (step <= 1) return 0;
    if (!config.warmup) return config.decay;
    return std::min(config.decay, 1 - std::pow(static_cast<double>(step), -2.0 / 3.0));
}

WeightAverage::WeightAverage(const EmaConfig& config, const Graph& graph, Device& device)
    : config_(config),
      graph_(graph),
      ops_(device.ops(graph.parameter_arena().dtype)),
      memory_(device.allocate(graph.parameter_arena().bytes(), "moving average of the weights")),
      weights_(graph.parameter_arena()),
      average_(memory_.view(0, weights_.dtype, weights_.shape)) {}

void WeightAverage::restart() {
    ops_.lerp(1, weights_, average_);
}

void WeightAverage::exchange() {
    ops_.swap(weights_, average_);
    graph_.parameters_changed();
}

void WeightAverage::update(std::int64_t step) {
    ops_.lerp(1 - ema_decay(config_, step), weights_, average_);
}

}  // namespace tutti
