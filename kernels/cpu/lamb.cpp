// LAMB in two halves, with the norms of a parameter between them. Scalars are computed in double and rounded
// once.

#include <cmath>

#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

template <class T>
struct Direction {
    T one_minus_beta1, beta2, one_minus_beta2;
    T inverse_correction1;  // 1 / (1 − β₁ᵗ)
    T root_correction2;     // √(1 − β₂ᵗ)
    T eps, weight_decay;

    // gradient and update may be the same memory: element i is read before it is written.
    void run(std::int64_t begin, std::int64_t end, const T* gradient, const T* __restrict parameter,
             T* __restrict first_moment, T* __restrict second_moment, T* update) const {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            const T g = gradient[i];
            const T m = first_moment[i] + (g - first_moment[i]) * one_minus_beta1;
            const T v = second_moment[i] * beta2 + one_minus_beta2 * g * g;
            first_moment[i] = m;
            second_moment[i] = v;
            update[i] = m * inverse_correction1 / (std::sqrt(v) / root_correction2 + eps) +
                        weight_decay * parameter[i];
        }
    }
};

}  // namespace

template <class T>
void EigenOps<T>::lamb_direction(const LambStep& step, const TensorView& gradient,
                                 const TensorView& parameter, const TensorView& first_moment,
                                 const TensorView& second_moment, const TensorView& update) {
    assert(step.step >= 1);
    assert(gradient.count() == parameter.count() && update.count() == parameter.count());
    assert(first_moment.count() == parameter.count() && second_moment.count() == parameter.count());
    const double t = static_cast<double>(step.step);
    const Direction<T> direction{static_cast<T>(1 - step.beta1),
                                 static_cast<T>(step.beta2),
                                 static_cast<T>(1 - step.beta2),
                                 static_cast<T>(1 / (1 - std::pow(step.beta1, t))),
                                 static_cast<T>(std::sqrt(1 - std::pow(step.beta2, t))),
                                 static_cast<T>(step.eps),
                                 static_cast<T>(step.weight_decay)};
    for_ranges(parameter.count(), [&](std::int64_t begin, std::int64_t end) {
        direction.run(begin, end, gradient.as<T>(), parameter.as<T>(), first_moment.as<T>(),
                      second_moment.as<T>(), update.as<T>());
    });
}

template <class T>
void EigenOps<T>::lamb_apply(double lr, const TensorView& squares, const TensorView& update,
                             const TensorView& parameter) {
    assert(update.count() == parameter.count() && squares.count() == 2);
    const double* sums = squares.as<double>();
    const double ratio = sums[0] > 0 && sums[1] > 0 ? std::sqrt(sums[0]) / std::sqrt(sums[1]) : 1.0;
    const T rate = static_cast<T>(lr * ratio);
    const T* direction = update.as<T>();
    T* p = parameter.as<T>();
    for_ranges(parameter.count(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) p[i] -= rate * direction[i];
    });
}

template void EigenOps<float>::lamb_direction(const LambStep&, const TensorView&, const TensorView&,
                                              const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<double>::lamb_direction(const LambStep&, const TensorView&, const TensorView&,
                                               const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<float>::lamb_apply(double, const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<double>::lamb_apply(double, const TensorView&, const TensorView&, const TensorView&);

}  // namespace tutti
