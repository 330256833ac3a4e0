#pragma once
// The loss of heat map and presence; the formulas are in include/tutti/device/location_loss.hpp.

#include <cmath>
#include <cstdint>

#include "host_device.hpp"
#include "tutti/device/location_loss.hpp"

namespace tutti {

/// What is wanted of one sample.
struct WantedLocation {
    bool present;
    float x, y;
    /// row: {presence, x, y}
    HOST_DEVICE explicit WantedLocation(const float* row) : present(row[0] > 0.5f), x(row[1]), y(row[2]) {}
};

/// One factor of the Gaussian: of the cells of a row, or of those of a column.
template <class T>
struct LocationBell {
    T stride, factor;  ///< pixels; −1/(2·sigma²)
    HOST_DEVICE explicit LocationBell(const LocationLoss& loss)
        : stride(static_cast<T>(loss.stride)), factor(static_cast<T>(-0.5 / (loss.sigma * loss.sigma))) {}
    HOST_DEVICE T operator()(std::int64_t cell, float centre) const {
        const T distance = stride * static_cast<T>(cell) - static_cast<T>(centre);
        return std::exp(factor * (distance * distance));
    }
};

/// log(1 + eᶻ) − c·z, also for large z; evaluations have it from src/train/location.cpp.
HOST_DEVICE inline double presence_loss(double logit, bool present) {
    return (logit > 0 ? logit : 0) - (present ? logit : 0) + std::log1p(std::exp(-std::fabs(logit))) +
           // A NaN is no number above 0: a diverged run must show, not hide.
           (logit == logit ? 0 : logit);
}
/// sigmoid(z) − c
HOST_DEVICE inline double presence_difference(double logit, bool present) {
    return 1 / (1 + std::exp(-logit)) - (present ? 1 : 0);
}

/// What the differences of the two channels are multiplied by.
template <class T>
struct LocationGradient {
    T heat_map, presence;
    HOST_DEVICE LocationGradient(const LocationLoss& loss, double scale, std::int64_t cells)
        : heat_map(static_cast<T>(2 * scale * loss.heat_map_weight / static_cast<double>(cells))),
          presence(static_cast<T>(scale * loss.presence_weight / static_cast<double>(cells))) {}
};

}  // namespace tutti
