#include "tutti/train/weight_average.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti {

double ema_decay(const EmaConfig& config, std::int64_t step) {
    if (step <= 1) return 0;
    if (!config.warmup) return config.decay;
    return std::min(config.decay, 1 - std::pow(static_cast<double>(step), -2.0 / 3.0));
}

namespace {

/// What the average after so many updates has of the weights after the first: the product of the decays.
double share_of_first(const EmaConfig& config, double updates) {
    if (!config.warmup) return std::pow(config.decay, updates - 1);
    double share = 1;
    // Decays that rise from 0 have made it negligible after some updates, however many there are.
    for (std::int64_t step = 2; static_cast<double>(step) <= updates && share > 1e-3; ++step)
        share *= ema_decay(config, step);
    return share;
}

/// The decay that remembers a tenth of the updates, with as many digits as it takes: 0.93, 0.9995; empty
/// where they are too few for any.
std::string fitting_decay(double updates) {
    constexpr double memories = 10;  // e^-10 of the first weights is left
    const double step = memories / updates;
    const double unit = std::pow(10, std::floor(std::log10(step)));
    const double rounded = std::ceil(step / unit - 1e-9) * unit;
    if (rounded >= 1) return {};
    return fmt::format("{:.{}f}", 1 - rounded, static_cast<int>(std::lround(-std::log10(unit))));
}

}  // namespace

std::string doubt_about_average(const EmaConfig& config, double updates) {
    constexpr double most = 0.1;
    if (updates < 2) return {};
    const double share = share_of_first(config, updates);
    if (share <= most) return {};
    const std::string decay = fitting_decay(updates);
    return fmt::format(
        "train.ema with decay {}: after the run's {:.0f} updates {:.0f} % of the averaged weights, which "
        "evaluations use, are still those after the first one; {}",
        config.decay, updates, 100 * share,
        decay.empty() ? "leave train.ema out"
                      : fmt::format("set its decay to {}, or its warmup to true, or train longer", decay));
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
