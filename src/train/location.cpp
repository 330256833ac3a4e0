#include "tutti/train/location.hpp"

#include <cassert>
#include <cmath>
#include <limits>

namespace tutti {

SamplePlace Location::place() const {
    if (std::isnan(peak)) return {peak, peak};
    return {x, y};
}

double Location::probability() const {
    return 1 / (1 + std::exp(-logit));
}

namespace {

/// Calls visit(i, j, heat, presence) for each cell.
template <class Visit>
void for_cells(std::span<const double> outputs, const Shape& shape, const Visit& visit) {
    assert(shape.rank() == 3 && shape[2] == 2 && std::ssize(outputs) == shape.count());
    for (std::int64_t i = 0; i < shape[0]; ++i)
        for (std::int64_t j = 0; j < shape[1]; ++j) {
            const auto at = static_cast<std::size_t>(2 * (i * shape[1] + j));
            visit(static_cast<double>(i), static_cast<double>(j), outputs[at], outputs[at + 1]);
        }
}

}  // namespace

Location find_location(std::span<const double> outputs, const Shape& shape,
                       const LocationDecoding& decoding) {
    Location location;
    location.peak = -std::numeric_limits<double>::infinity();
    double logits = 0;
    for_cells(outputs, shape, [&](double i, double j, double heat, double presence) {
        logits += presence;
        if (heat <= location.peak || std::isnan(location.peak)) return;
        location.peak = heat;
        location.x = j;
        location.y = i;
    });
    location.logit = logits / static_cast<double>(shape[0] * shape[1]);
    if (decoding.soft_argmax) {
        double weights = 0, x = 0, y = 0;
        for_cells(outputs, shape, [&](double i, double j, double heat, double) {
            const double weight = std::exp((heat - location.peak) / *decoding.soft_argmax);
            weights += weight;
            x += weight * j;
            y += weight * i;
        });
        location.x = x / weights;
        location.y = y / weights;
    }
    location.x *= static_cast<double>(decoding.stride);
    location.y *= static_cast<double>(decoding.stride);
    return location;
}

double LocationDecoding::ranking_score(const Location& location) const {
    const double score = presence_score == PresenceScore::logit ? location.logit : location.score();
    // As predictions have it: what is equal there is equal here.
    return static_cast<double>(static_cast<float>(score));
}

bool LocationDecoding::predicts_presence(const Location& location) const {
    const double score = presence_score == PresenceScore::logit ? location.probability() : location.score();
    return score > presence_threshold;
}

double heat_map_loss(std::span<const double> outputs, const Shape& shape, const LocationLoss& loss,
                     std::span<const float> target) {
    const bool present = is_present(target);
    const double x = static_cast<double>(target[1]), y = static_cast<double>(target[2]);
    double squares = 0;
    for (std::int64_t i = 0; i < shape[0]; ++i)
        for (std::int64_t j = 0; j < shape[1]; ++j) {
            const double dx = static_cast<double>(loss.stride * j) - x,
                         dy = static_cast<double>(loss.stride * i) - y;
            const double heat = present ? std::exp(-(dx * dx + dy * dy) / (2 * loss.sigma * loss.sigma))
                                        : LocationLoss::absent_heat;
            const double difference = outputs[static_cast<std::size_t>(2 * (i * shape[1] + j))] - heat;
            squares += difference * difference;
        }
    return squares / static_cast<double>(shape[0] * shape[1]);
}

double presence_loss(double logit, bool present) {
    return std::fmax(logit, 0.0) - (present ? logit : 0) + std::log1p(std::exp(-std::fabs(logit)));
}

std::array<double, 6> values_of(const Location& location) {
    return {location.score(), location.probability(), location.logit, location.peak, location.x, location.y};
}

}  // namespace tutti
