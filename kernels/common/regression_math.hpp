#pragma once
// Losses of regression; the formulas are in include/tutti/device/regression_loss.hpp.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "host_device.hpp"
#include "tutti/device/regression_loss.hpp"

namespace tutti {

/// l(d). In double the square of any finite fp32 is finite.
template <RegressionLoss kind>
HOST_DEVICE inline double regression_loss(double d) {
    if constexpr (kind == RegressionLoss::squared)
        return d * d;
    else if constexpr (kind == RegressionLoss::absolute)
        return std::abs(d);
    else
        return std::abs(d) < 1 ? 0.5 * (d * d) : std::abs(d) - 0.5;
}

/// The gradient of one output: factor·l′(d).
template <class T, RegressionLoss kind>
struct RegressionGradient {
    T factor;
    /// Each row's loss is the mean over its `width` outputs.
    HOST_DEVICE RegressionGradient(double scale, std::int64_t width)
        : factor(static_cast<T>(scale / static_cast<double>(width))) {}
    HOST_DEVICE T operator()(T d) const {
        // A NaN stays one: a diverged run must show, not hide.
        if constexpr (kind == RegressionLoss::squared)
            return 2 * factor * d;
        else if constexpr (kind == RegressionLoss::absolute)
            return d > 0 ? factor : d < 0 ? -factor : d;
        else
            return d >= 1 ? factor : d <= -1 ? -factor : factor * d;
    }
};

/// Calls body(std::integral_constant<RegressionLoss, kind>).
template <class Body>
void with_regression_loss(RegressionLoss kind, const Body& body) {
    switch (kind) {
        case RegressionLoss::squared:
            return body(std::integral_constant<RegressionLoss, RegressionLoss::squared>{});
        case RegressionLoss::absolute:
            return body(std::integral_constant<RegressionLoss, RegressionLoss::absolute>{});
        case RegressionLoss::huber:
            return body(std::integral_constant<RegressionLoss, RegressionLoss::huber>{});
    }
}

}  // namespace tutti
