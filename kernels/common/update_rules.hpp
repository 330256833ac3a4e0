#pragma once
// The optimizers' arithmetic for one element; formulas and sources: tutti/device/ops.hpp. Scalars are
// computed in double and rounded once. Products and sums are rounded one by one, as in PyTorch's CPU loops.

#include <cmath>
#include <cstdint>

#include "host_device.hpp"

namespace tutti {

/// torch.optim.SGD, in the order of operations of its documentation.
template <class T>
struct SgdRule {
    T lr, momentum, one_minus_dampening, weight_decay;

    HOST_DEVICE T decayed(T gradient, T parameter) const { return gradient + weight_decay * parameter; }
    /// What the momentum buffer becomes after the first step, where it was the gradient.
    HOST_DEVICE T next_buffer(T g, T buffer) const { return momentum * buffer + one_minus_dampening * g; }
};

/// torch.optim.AdamW and Adam, in their order of operations.
template <class T>
struct AdamRule {
    T keep;  // 1 − lr·weight_decay, or 1
    T l2;    // weight_decay that goes through the moments, or 0
    T one_minus_beta1, beta2, one_minus_beta2;
    T step_size;         // lr / (1 − β₁ᵗ)
    T root_correction2;  // √(1 − β₂ᵗ)
    T eps;

    HOST_DEVICE void update(T gradient, T& parameter, T& first_moment, T& second_moment) const {
        const T p = parameter * keep;
        const T g = gradient + l2 * p;
        const T m = first_moment + (g - first_moment) * one_minus_beta1;
        const T v = second_moment * beta2 + one_minus_beta2 * g * g;
        first_moment = m;
        second_moment = v;
        parameter = p - step_size * m / (std::sqrt(v) / root_correction2 + eps);
    }
};

/// The first half of LAMB.
template <class T>
struct LambRule {
    T one_minus_beta1, beta2, one_minus_beta2;
    T inverse_correction1;  // 1 / (1 − β₁ᵗ)
    T root_correction2;     // √(1 − β₂ᵗ)
    T eps, weight_decay;

    /// The update's direction.
    HOST_DEVICE T direction(T g, T parameter, T& first_moment, T& second_moment) const {
        const T m = first_moment + (g - first_moment) * one_minus_beta1;
        const T v = second_moment * beta2 + one_minus_beta2 * g * g;
        first_moment = m;
        second_moment = v;
        return m * inverse_correction1 / (std::sqrt(v) / root_correction2 + eps) + weight_decay * parameter;
    }
};

/// ‖p‖/‖update‖ from the sums of their squares, or 1 where either is 0.
HOST_DEVICE inline double trust_ratio(double parameter_squares, double update_squares) {
    return parameter_squares > 0 && update_squares > 0
               ? std::sqrt(parameter_squares) / std::sqrt(update_squares)
               : 1.0;
}

}  // namespace tutti
