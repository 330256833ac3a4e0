#pragma once
// The loss of segments, second by second; the formulas are in include/tutti/device/segment_loss.hpp.

#include <cmath>

#include "host_device.hpp"
#include "tutti/device/segment_loss.hpp"

namespace tutti {

/// Whether a second is inside of a segment, given the first of its wanted offsets. A NaN is, where it shows
/// in the loss and does not hide.
HOST_DEVICE inline bool is_inside(float wanted) {
    return !(wanted < 0);
}

/// log(1 + eˣ), also for large x.
HOST_DEVICE inline double softplus(double x) {
    return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x)));
}

struct FocalLoss {
    double loss, slope;
};

/// −α'·(1 − q)^gamma·log q of a logit, and its derivative by the logit.
HOST_DEVICE inline FocalLoss focal_loss(double logit, bool inside, double alpha, double gamma) {
    // q = sigmoid(s) with s = ±logit; −log q = softplus(−s), 1 − q = sigmoid(−s).
    const double s = inside ? logit : -logit, factor = inside ? alpha : 1 - alpha;
    // Neither is the other subtracted from 1, which would leave nothing of small ones.
    const double minus_log = softplus(-s), wrong = 1 / (1 + std::exp(s)), right = 1 / (1 + std::exp(-s));
    // Where gamma is 0 it is 1 even of a NaN, which minus_log and wrong then carry.
    const double weight = std::pow(wrong, gamma);
    // d/ds of wrong^gamma·minus_log: wrong' = −wrong·right, minus_log' = −wrong.
    const double slope = -factor * weight * (gamma * right * minus_log + wrong);
    return {factor * weight * minus_log, inside ? slope : -slope};
}

/// min(x, a) or max(x, a), and its derivative by x. Of a NaN a: it shows in what x itself is added to.
struct Bound {
    double value, slope;
};
HOST_DEVICE inline Bound least(double x, double a) {
    return {x < a ? x : a, x < a ? 1.0 : (x == a ? 0.5 : 0.0)};
}
HOST_DEVICE inline Bound greatest(double x, double a) {
    return {x > a ? x : a, x > a ? 1.0 : (x == a ? 0.5 : 0.0)};
}

struct OffsetLoss {
    double loss, left_slope, right_slope;
};

/// A divisor that is kept from 0, and whether it has a derivative then: at its bound, too, as by torch.clamp.
struct Divisor {
    double value;
    bool moves;
    HOST_DEVICE explicit Divisor(double of) {
        constexpr double smallest = 1e-6;
        moves = !(of < smallest);
        value = moves ? of : smallest;
    }
};

/// 1 − IoU + (d / h)² of the offsets l and r where a and b are wanted, and its derivatives by l and r.
HOST_DEVICE inline OffsetLoss offset_loss(double l, double r, double a, double b) {
    const Bound left_min = least(l, a), right_min = least(r, b);
    const Bound left_max = greatest(l, a), right_max = greatest(r, b);
    const double both = left_min.value + right_min.value;
    const Divisor either(l + r + a + b - both), hull(left_max.value + right_max.value);
    const double iou = both / either.value;
    const double distance = 0.5 * ((r - l) - (b - a)), ratio = distance / hull.value;
    // By one offset: both' = min', either' = 1 − min', hull' = max', distance' = toward.
    const auto slope = [&](const Bound& min, const Bound& max, double toward) {
        const double of_iou = (min.slope - (either.moves ? iou * (1 - min.slope) : 0)) / either.value;
        const double of_ratio = (toward - (hull.moves ? ratio * max.slope : 0)) / hull.value;
        return 2 * ratio * of_ratio - of_iou;
    };
    return {1 - iou + ratio * ratio, slope(left_min, left_max, -0.5), slope(right_min, right_max, 0.5)};
}

}  // namespace tutti
