#pragma once
// What a model says of one sample, beside what is.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tutti/device/location_loss.hpp"
#include "tutti/input/geography.hpp"
#include "tutti/train/evaluation.hpp"
#include "tutti/train/segments.hpp"

namespace tutti {

/// Of which sample an answer is; on the earth, where geography is not null.
struct OnEarth {
    const Geography* geography;
    std::int64_t sample;
};

/// Of numbers one by one; where they are a place, x and y.
struct NumberAnswer {
    TargetErrors errors;
    std::optional<double> km;  ///< none: not known, or no earth is there
};
/// outputs, targets: [K], of one sample, as all spans here; K = 2 where geography is known. Pure, as all.
NumberAnswer answer_of(std::span<const double> outputs, std::span<const float> targets, const OnEarth& where);

/// Of a locator.
struct LocationAnswer {
    bool present;
    double logit, presence_loss, heat_map_loss;
    double distance;           ///< pixels
    std::optional<double> km;  ///< of one that is present; none as above
};
LocationAnswer answer_of(std::span<const double> outputs, const Shape& shape, const LocationLoss& loss,
                         std::span<const float> target, const OnEarth& where);

/// Of a model that tells segments.
struct SegmentAnswer {
    std::array<std::array<std::int64_t, 2>, 2> seconds{};  ///< [inside][told to be]
    bool has_any = false;
    std::size_t told = 0;
    std::array<double, segment_ious.size()> precisions{};
};
SegmentAnswer answer_of(std::span<const double> outputs, const SegmentTask& task,
                        std::span<const float> targets);

}  // namespace tutti
