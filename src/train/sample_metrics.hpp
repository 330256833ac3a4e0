#pragma once
// How what a model says of one sample differs from what is.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tutti/input/geography.hpp"
#include "tutti/train/evaluation_result.hpp"
#include "tutti/train/location.hpp"
#include "tutti/train/segments.hpp"

namespace tutti {

/// What evaluations sum of samples where the order decides the bits; by the places below.
using MetricSums = std::array<double, 5>;
namespace number_sums {
enum Place : std::size_t { absolute, squared, distance, km };
}
namespace location_sums {
enum Place : std::size_t { presence_loss, heat_map_loss, distance, km };
}
/// Of segments the precision at each of segment_ious.
static_assert(segment_ious.size() == MetricSums().size());

/// Of which sample metrics are; on the earth, where geography is not null.
struct OnEarth {
    const Geography* geography;
    std::int64_t sample;
};

/// What is predicted where the outputs are not finite, which say nothing: never right.
inline constexpr std::int64_t no_class = -1;

/// Of numbers one by one; where they are a place, x and y.
struct NumberMetrics {
    TargetErrors errors;
    bool is_finite() const { return std::isfinite(errors.absolute); }
    std::optional<double> km;  ///< none: not known, or no earth is there
};
/// outputs, targets: [K], of one sample, as all spans here; K = 2 where geography is known. Pure, as all.
NumberMetrics metrics_of(std::span<const double> outputs, std::span<const float> targets,
                         const OnEarth& where);

/// Of a locator.
struct LocationMetrics {
    bool present;
    std::int64_t predicted;  ///< 1: present, 0: absent, or no_class
    double score;            ///< LocationDecoding::ranking_score()
    double presence_loss, heat_map_loss;
    bool is_finite() const { return std::isfinite(score) && std::isfinite(heat_map_loss); }
    double distance;           ///< pixels
    std::optional<double> km;  ///< of one that is present; none as above
};
LocationMetrics metrics_of(std::span<const double> outputs, const Shape& shape, const LocationTask& task,
                           std::span<const float> target, const OnEarth& where);

/// Of a model that tells segments.
struct SegmentMetrics {
    struct Seconds {
        std::array<std::int64_t, 2> predicted{};  ///< to be outside, inside
        std::int64_t not_finite = 0;              ///< that say nothing
    };
    std::array<Seconds, 2> seconds{};  ///< of those that are outside, inside
    bool has_any = false, is_finite = true;
    std::size_t predicted = 0;
    std::array<double, segment_ious.size()> precisions{};
};
SegmentMetrics metrics_of(std::span<const double> outputs, const SegmentTask& task,
                          std::span<const float> targets);

}  // namespace tutti
