#pragma once
// Batch normalisation of one channel; the names are those of include/tutti/device/batch_norm_op.hpp.

#include "host_device.hpp"

namespace tutti {

/// y = (x − mean)·scale + offset, with scale = weight/√(variance + eps) and offset = bias.
template <class T>
struct BatchNormForward {
    T mean, scale, offset;
    HOST_DEVICE T operator()(T x) const { return fused(x - mean, scale, offset); }
};

/// dx = scale·(dy − offset − (x − mean)·slope), with offset = Σ dy/rows and slope = Σ dy·x̂/rows/√(variance +
/// eps).
template <class T>
struct BatchNormBackward {
    T mean, scale, offset, slope;
    HOST_DEVICE T operator()(T x, T dy) const { return scale * fused(mean - x, slope, dy - offset); }
};

/// Of a channel: what normalises it, and what its running statistics follow.
struct BatchNormStatistics {
    double mean, inverse;  ///< 1/√(variance + eps)
    double weighted_mean,
        weighted_variance;  ///< times the rows, and times those that the unbiased variance has
};

/// From Σ(x − shift) and Σ(x − shift)² over `rows` rows.
HOST_DEVICE inline BatchNormStatistics batch_norm_statistics(double rows, double sum, double squares,
                                                             double shift, double eps) {
    const double divisor = rows > 0 ? rows : 1, unbiased = rows < 2 ? 0 : rows / (rows - 1);
    const double distance = sum / divisor;
    const double difference = squares - sum * distance;
    // Rounding may leave a little less than nothing; a NaN must stay one.
    const double deviations = difference < 0 ? 0.0 : difference;
    const double mean = shift + distance;
    return {mean, 1 / sqrt(deviations / divisor + eps), rows * mean, unbiased * deviations};
}

/// What a running statistic becomes: new = (1 − momentum)·old + momentum·(weighted/weight).
HOST_DEVICE inline double follow(double old, double weighted, double weight, double momentum) {
    return (1 - momentum) * old + momentum * (weighted / weight);
}

/// Whether what follow() is to come near is finite as a T, in which running statistics are kept: a batch of
/// finite numbers may have statistics that only a double holds, and running ones would never come back from
/// infinity. With a weight of 0 there is nothing to follow.
template <class T>
HOST_DEVICE inline bool can_follow(double weighted, double weight) {
    using std::isfinite;
    return isfinite(static_cast<T>(weight > 0 ? weighted / weight : weighted));
}

}  // namespace tutti
