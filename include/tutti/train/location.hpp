#pragma once
// What a locator says of an image, read from its outputs (device/location_loss.hpp).

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "tutti/base/config.hpp"
#include "tutti/base/shape.hpp"
#include "tutti/device/location_loss.hpp"
#include "tutti/input/geography.hpp"

namespace tutti {

struct Location {
    double logit = 0;     ///< of presence
    double peak = 0;      ///< the greatest value of the heat map
    double x = 0, y = 0;  ///< pixels of the image, as LocationDecoding says

    /// x and y; NaN where the peak is: of heat that is no number no place is predicted.
    SamplePlace place() const;
    /// sigmoid(logit)
    double probability() const;
    /// The mean of that and the peak: what the heat map says of presence counts, too.
    double score() const { return 0.5 * probability() + 0.5 * peak; }
};

/// How a place is decoded from a heat map.
struct LocationDecoding {
    std::int64_t stride = 4;  ///< pixels from cell to cell
    /// Temperature T: the place is the mean of all cells, each weighted by exp(value / T) (soft-argmax).
    /// Empty: the cell of the greatest value, of equal ones the first by rows.
    std::optional<double> soft_argmax = {};
    PresenceScore presence_score = PresenceScore::logit;
    double presence_threshold = 0.5;  ///< of that score, above which something is present

    /// The score that orders samples: of PresenceScore::logit the logit itself.
    double ranking_score(const Location& location) const;
    bool predicts_presence(const Location& location) const;
};

/// outputs: [H, W, 2] of one sample. A NaN is the greatest value. Pure.
Location find_location(std::span<const double> outputs, const Shape& shape, const LocationDecoding& decoding);

/// What a locator learns, and how places are decoded from its outputs.
struct LocationTask {
    LocationLoss loss;
    LocationDecoding decoding;
};

/// Whether the targets {presence, x, y} of a sample say that the thing is there.
constexpr bool is_present(std::span<const float> target) {
    return target[0] > 0.5f;
}

/// The mean over cells of (o − t)², the loss of the heat map with weight 1. target: {presence, x, y}. Pure.
double heat_map_loss(std::span<const double> outputs, const Shape& shape, const LocationLoss& loss,
                     std::span<const float> target);
/// log(1 + eᶻ) − c·z, the loss of presence with weight 1, as kernels/common/location_math.hpp has it. Pure.
double presence_loss(double logit, bool present);

/// What predictions hold of a location, in this order: score(), probability(), and the members.
inline constexpr std::array<const char*, 6> location_columns{
    "presence_prob", "presence_prob_raw", "presence_logit", "heatmap_peak", "x", "y"};
std::array<double, 6> values_of(const Location& location);

/// Evaluations count the places that are predicted to within these many pixels.
inline constexpr std::array<int, 4> location_radii{8, 16, 24, 32};

}  // namespace tutti
