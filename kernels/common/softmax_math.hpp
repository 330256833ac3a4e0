#pragma once
// Softmax cross-entropy; the formulas are in include/tutti/device/ops.hpp.

#include "host_device.hpp"

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

}  // namespace tutti
