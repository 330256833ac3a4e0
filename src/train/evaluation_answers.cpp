#include "evaluation_answers.hpp"

#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

#include "tutti/train/location.hpp"

namespace tutti {
namespace {

std::optional<double> km_between(const OnEarth& where, const SamplePlace& told, const SamplePlace& wanted) {
    if (where.geography == nullptr) return {};
    return where.geography->distance_km(where.sample, told, wanted);
}

}  // namespace

NumberAnswer answer_of(std::span<const double> outputs, std::span<const float> targets,
                       const OnEarth& where) {
    NumberAnswer answer;
    double squares = 0;
    for (std::size_t i = 0; i < targets.size(); ++i) {
        const double difference = outputs[i] - static_cast<double>(targets[i]);
        answer.errors.absolute += std::abs(difference);
        squares += difference * difference;
    }
    answer.errors.squared = squares;
    answer.errors.distance = std::sqrt(squares);
    if (where.geography == nullptr) return answer;
    assert(targets.size() == 2);
    answer.km = km_between(where, {outputs[0], outputs[1]},
                           {static_cast<double>(targets[0]), static_cast<double>(targets[1])});
    return answer;
}

LocationAnswer answer_of(std::span<const double> outputs, const Shape& shape, const LocationLoss& loss,
                         std::span<const float> target, const OnEarth& where) {
    Location location = find_location(outputs, shape, loss.stride);
    const bool present = target[0] > 0.5f;
    // Of heat that is no number no place is told.
    if (std::isnan(location.peak)) location.x = location.y = std::numeric_limits<double>::quiet_NaN();
    const SamplePlace told{location.x, location.y},
        wanted{static_cast<double>(target[1]), static_cast<double>(target[2])};
    return {present,
            location.logit,
            presence_loss(location.logit, present),
            heat_map_loss(outputs, shape, loss, target),
            std::hypot(told.x - wanted.x, told.y - wanted.y),
            present ? km_between(where, told, wanted) : std::nullopt};
}

SegmentAnswer answer_of(std::span<const double> outputs, const SegmentTask& task,
                        std::span<const float> targets) {
    const std::vector<ScoredSegment> told = tell_segments(outputs, task.selection);
    const std::vector<SegmentTimes> wanted = segments_in(targets);
    SegmentAnswer answer{{}, !wanted.empty(), told.size(), segment_precisions(told, wanted)};
    const auto seconds = static_cast<std::size_t>(seconds_of(outputs));
    for (std::size_t t = 0; t < seconds; ++t)
        ++answer.seconds[targets[2 * t] < 0 ? 0 : 1][outputs[4 * t] > 0 ? 1 : 0];
    return answer;
}

}  // namespace tutti
