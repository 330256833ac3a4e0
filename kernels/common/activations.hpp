#pragma once
// Activations and their derivatives, element by element.

#include "vector_math.hpp"

namespace tutti {

// Both comparisons are false for NaN, which therefore passes, as in PyTorch: a diverged run must show, not
// hide.
template <class T>
HOST_DEVICE T relu(T x) {
    return x <= T(0) ? T(0) : x;
}
/// dx, from relu's result y.
template <class T>
HOST_DEVICE T relu_gradient(T y, T dy) {
    return y <= T(0) ? T(0) : dy;
}

template <class T>
HOST_DEVICE T gelu(T x) {
    const T gauss = exp_nonpositive(T(-0.5) * x * x);
    return x * normal_distribution(x, gauss);
}
template <class T>
HOST_DEVICE T gelu_gradient(T x, T dy) {
    constexpr T density_at_0 = std::numbers::inv_sqrtpi_v<T> * std::numbers::sqrt2_v<T> / 2;
    const T gauss = exp_nonpositive(T(-0.5) * x * x);
    return dy * (normal_distribution(x, gauss) + x * (density_at_0 * gauss));
}

}  // namespace tutti
