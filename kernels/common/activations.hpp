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

/// e^x is 0 below it, for all that is added to it or multiplied by it (exp_nonpositive).
template <class T>
HOST_DEVICE constexpr T exponent_of_nothing() {
    return sizeof(T) == sizeof(float) ? T(-87) : T(-700);
}

template <class T>
HOST_DEVICE T gelu(T x) {
    const T gauss = exp_nonpositive(T(-0.5) * x * x);
    return x * normal_distribution(x, gauss);
}
template <class T>
HOST_DEVICE T gelu_gradient(T x, T dy) {
    constexpr T density_at_0 = std::numbers::inv_sqrtpi_v<T> * std::numbers::sqrt2_v<T> / 2;
    const T exponent = T(-0.5) * x * x, gauss = exp_nonpositive(exponent);
    // In fp32 gauss is never 0, but farther out there is no density, however large x is; NaN stays NaN.
    const T slope = exponent < exponent_of_nothing<T>() ? T(0) : x * (density_at_0 * gauss);
    return dy * (normal_distribution(x, gauss) + slope);
}

/// x·(1 + tanh(u))/2 with u = √(2/π)·(x + 0.044715·x³) (Hendrycks & Gimpel 2016, section 2), which is
/// x/(1 + e^−2u), and its derivative.
template <class T>
struct GeluByTanh {
    T share;  ///< (1 + tanh(u))/2
    T slope;  ///< of share, times x
    HOST_DEVICE explicit GeluByTanh(T x) {
        constexpr T linear = 2 * std::numbers::inv_sqrtpi_v<T> * std::numbers::sqrt2_v<T>;  // of 2u
        constexpr T cubic = T(0.044715) * linear;
        const T square = x * x;
        const T exponent = -std::abs(x) * std::fma(cubic, square, linear);  // −|2u|
        const T power = exp_nonpositive(exponent);
        const T larger = 1 / (1 + power);
        // Farther out there is no slope, however large x is; NaN stays NaN.
        const bool flat = exponent < exponent_of_nothing<T>();
        const T smaller = flat ? T(0) : power * larger;
        share = x < 0 ? smaller : larger;
        slope = flat ? T(0) : smaller * larger * x * std::fma(3 * cubic, square, linear);
    }
};
template <class T>
HOST_DEVICE T gelu_by_tanh(T x) {
    return x * GeluByTanh<T>(x).share;
}
template <class T>
HOST_DEVICE T gelu_by_tanh_gradient(T x, T dy) {
    const GeluByTanh<T> at(x);
    return dy * (at.share + at.slope);
}

}  // namespace tutti
