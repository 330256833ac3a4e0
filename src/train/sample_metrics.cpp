#include "sample_metrics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "tutti/train/location.hpp"

namespace tutti {
namespace {

std::optional<double> km_between(const OnEarth& where, const SamplePlace& predicted,
                                 const SamplePlace& truth) {
    if (where.geography == nullptr) return {};
    return where.geography->distance_km(where.sample, predicted, truth);
}

}  // namespace

NumberMetrics metrics_of(std::span<const double> outputs, std::span<const float> targets,
                         const OnEarth& where) {
    NumberMetrics metrics;
    double squares = 0;
    for (std::size_t i = 0; i < targets.size(); ++i) {
        const double difference = outputs[i] - static_cast<double>(targets[i]);
        metrics.errors.absolute += std::abs(difference);
        squares += difference * difference;
    }
    metrics.errors.squared = squares;
    metrics.errors.distance = std::sqrt(squares);
    if (where.geography == nullptr) return metrics;
    assert(targets.size() == 2);
    metrics.km = km_between(where, {outputs[0], outputs[1]},
                            {static_cast<double>(targets[0]), static_cast<double>(targets[1])});
    return metrics;
}

LocationMetrics metrics_of(std::span<const double> outputs, const Shape& shape, const LocationTask& task,
                           std::span<const float> target, const OnEarth& where) {
    const Location location = find_location(outputs, shape, task.decoding);
    const bool present = is_present(target);
    const SamplePlace predicted = location.place();
    const SamplePlace truth{static_cast<double>(target[1]), static_cast<double>(target[2])};
    const double score = task.decoding.ranking_score(location);
    const double of_heat_map = heat_map_loss(outputs, shape, task.loss, target);
    const bool finite = std::isfinite(score) && std::isfinite(of_heat_map);
    return {present,
            finite ? std::int64_t{task.decoding.predicts_presence(location)} : no_class,
            score,
            presence_loss(location.logit, present),
            of_heat_map,
            std::hypot(predicted.x - truth.x, predicted.y - truth.y),
            present ? km_between(where, predicted, truth) : std::nullopt};
}

SegmentMetrics metrics_of(std::span<const double> outputs, const SegmentTask& task,
                          std::span<const float> targets) {
    const std::vector<ScoredSegment> predicted = decode_segments(outputs, task.selection);
    const std::vector<SegmentTimes> truth = segments_in(targets);
    SegmentMetrics metrics{{}, !truth.empty(), true, predicted.size(), segment_precisions(predicted, truth)};
    const auto seconds = static_cast<std::size_t>(seconds_of(outputs));
    for (std::size_t t = 0; t < seconds; ++t) {
        const std::span<const double> second = outputs.subspan(4 * t, 3);
        SegmentMetrics::Seconds& counts = metrics.seconds[targets[2 * t] < 0 ? 0 : 1];
        ++(std::isfinite(second[0]) ? counts.predicted[second[0] > 0 ? 1 : 0] : counts.not_finite);
        metrics.is_finite = metrics.is_finite &&
                            std::ranges::all_of(second, [](double value) { return std::isfinite(value); });
    }
    return metrics;
}

}  // namespace tutti
