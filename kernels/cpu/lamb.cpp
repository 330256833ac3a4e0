// LAMB in two halves, with the norms of a parameter between them. Scalars are computed in double and rounded
// once.

#include <cmath>

#include "../common/update_rules.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

// gradient and update may be the same memory: element i is read before it is written.
template <class T>
void run(const LambRule<T>& rule, std::int64_t begin, std::int64_t end, const T* gradient,
         const T* __restrict parameter, T* __restrict first_moment, T* __restrict second_moment, T* update) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i)
        update[i] = rule.direction(gradient[i], parameter[i], first_moment[i], second_moment[i]);
}

}  // namespace

template <class T>
void EigenOps<T>::lamb_direction(const LambStep& step, const TensorView& gradient,
                                 const TensorView& parameter, const TensorView& first_moment,
                                 const TensorView& second_moment, const TensorView& update) {
    assert(step.step >= 1);
    assert(gradient.count() == parameter.count() && update.count() == parameter.count());
    assert(first_moment.count() == parameter.count() && second_moment.count() == parameter.count());
    const double t = static_cast<double>(step.step);
    const LambRule<T> rule{static_cast<T>(1 - step.beta1),
                           static_cast<T>(step.beta2),
                           static_cast<T>(1 - step.beta2),
                           static_cast<T>(1 / (1 - std::pow(step.beta1, t))),
                           static_cast<T>(std::sqrt(1 - std::pow(step.beta2, t))),
                           static_cast<T>(step.eps),
                           static_cast<T>(step.weight_decay)};
    for_ranges(parameter.count(), [&](std::int64_t begin, std::int64_t end) {
        run(rule, begin, end, gradient.as<T>(), parameter.as<T>(), first_moment.as<T>(),
            second_moment.as<T>(), update.as<T>());
    });
}

template <class T>
void EigenOps<T>::lamb_apply(double lr, const TensorView& squares, const TensorView& update,
                             const TensorView& parameter) {
    assert(update.count() == parameter.count() && squares.count() == 2);
    const double* sums = squares.as<double>();
    const T rate = static_cast<T>(lr * trust_ratio(sums[0], sums[1]));
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
