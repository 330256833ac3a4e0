#include "tutti/train/location.hpp"

#include <cassert>
#include <cmath>
#include <limits>

namespace tutti {

double Location::probability() const {
    return 1 / (1 + std::exp(-logit));
}

Location find_location(std::span<const double> outputs, const Shape& shape, std::int64_t stride) {
    assert(shape.rank() == 3 && shape[2] == 2 && std::ssize(outputs) == shape.count());
    Location location;
    location.peak = -std::numeric_limits<double>::infinity();
    double logits = 0;
    for (std::int64_t i = 0; i < shape[0]; ++i)
        for (std::int64_t j = 0; j < shape[1]; ++j) {
            const auto at = static_cast<std::size_t>(2 * (i * shape[1] + j));
            const double heat = outputs[at];
            logits += outputs[at + 1];
            if (heat <= location.peak || std::isnan(location.peak)) continue;
            location.peak = heat;
            location.x = static_cast<double>(stride * j);
            location.y = static_cast<double>(stride * i);
        }
    location.logit = logits / static_cast<double>(shape[0] * shape[1]);
    return location;
}

double heat_map_loss(std::span<const double> outputs, const Shape& shape, const LocationLoss& loss,
                     std::span<const float> target) {
    const bool present = target[0] > 0.5f;
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
