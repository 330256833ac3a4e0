#pragma once
// Softmax cross-entropy; the formulas are in include/tutti/device/ops.hpp.

#include <cstdint>

#include "host_device.hpp"
#include "tutti/device/cross_entropy_target.hpp"

namespace tutti {

/// True when `value` comes before `best` as the maximum of a row; NaN is the greatest, as in PyTorch's
/// argmax, so that a diverged row does not pass for label 0.
template <class T>
HOST_DEVICE inline bool exceeds(T value, T best) {
    return value > best || (value != value && best == best);
}

/// log p of the label, or with smoothing Σₖ q[k]·log p[k], each without the row's −log Σ exp(x − max): from
/// the label's logit less the maximum, and the sum of that over all classes.
HOST_DEVICE inline double smoothed_gap(double label_gap, double all_gaps, double smoothing, double classes) {
    // Not for 0, where a class whose logit is −∞ costs nothing.
    return smoothing > 0 ? (1 - smoothing) * label_gap + smoothing / classes * all_gaps : label_gap;
}

/// dlogits = factor·(p − q).
template <class T>
struct SoftmaxGradient {
    T factor, elsewhere, at_label;  ///< q of the other classes, and of the label
    HOST_DEVICE SoftmaxGradient(double scale, double smoothing, double classes)
        : factor(static_cast<T>(scale)),
          elsewhere(static_cast<T>(smoothing / classes)),
          at_label(static_cast<T>(1 - smoothing) + elsewhere) {}
    HOST_DEVICE T operator()(T p, bool label) const { return factor * (p - (label ? at_label : elsewhere)); }
};

/// w·q: the weights of K classes times the target.
struct WeightedTarget {
    const double* weights = nullptr;  ///< null: there are none
    double at_label = 0, spread = 0;  ///< q at the label is their sum, elsewhere spread
    double total_of_spread = 0;       ///< spread times the sum of the weights

    WeightedTarget(const CrossEntropyTarget& target, std::int64_t classes) {
        if (!target.class_weights.defined()) return;
        weights = target.class_weights.as<double>();
        at_label = 1 - target.label_smoothing;
        spread = target.label_smoothing / static_cast<double>(classes);
        total_of_spread = spread * target.weight_sum;
    }
    HOST_DEVICE double at(std::int64_t k, std::int64_t label) const {
        return weights[k] * ((k == label ? at_label : 0) + spread);
    }
    /// Σₖ w[k]·q[k].
    HOST_DEVICE double total(std::int64_t label) const { return at_label * weights[label] + total_of_spread; }
};

/// dlogits = factor·(p·Σₖ w[k]·q[k] − w·q), of one row.
template <class T>
struct WeightedGradient {
    T factor, total;
    HOST_DEVICE WeightedGradient(double scale, double total_of_row)
        : factor(static_cast<T>(scale)), total(static_cast<T>(total_of_row)) {}
    HOST_DEVICE T operator()(T p, double target) const {
        return factor * (p * total - static_cast<T>(target));
    }
};

}  // namespace tutti
