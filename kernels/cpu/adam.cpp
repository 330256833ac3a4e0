// torch.optim.AdamW and Adam, in their order of operations. Scalars are computed in double and rounded once.

#include <cmath>

#include "../common/update_rules.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

template <class T>
void run(const AdamRule<T>& rule, std::int64_t begin, std::int64_t end, const T* __restrict gradient,
         T* __restrict parameter, T* __restrict first_moment, T* __restrict second_moment) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i)
        rule.update(gradient[i], parameter[i], first_moment[i], second_moment[i]);
}

}  // namespace

template <class T>
void EigenOps<T>::adam(const AdamStep& step, const TensorView& gradient, const TensorView& parameter,
                       const TensorView& first_moment, const TensorView& second_moment) {
    assert(step.step >= 1);
    assert(gradient.count() == parameter.count());
    assert(first_moment.count() == parameter.count() && second_moment.count() == parameter.count());
    const double t = static_cast<double>(step.step);
    const AdamRule<T> rule{static_cast<T>(step.decoupled ? 1 - step.lr * step.weight_decay : 1.0),
                           static_cast<T>(step.decoupled ? 0.0 : step.weight_decay),
                           static_cast<T>(1 - step.beta1),
                           static_cast<T>(step.beta2),
                           static_cast<T>(1 - step.beta2),
                           static_cast<T>(step.lr / (1 - std::pow(step.beta1, t))),
                           static_cast<T>(std::sqrt(1 - std::pow(step.beta2, t))),
                           static_cast<T>(step.eps)};
    for_ranges(parameter.count(), [&](std::int64_t begin, std::int64_t end) {
        run(rule, begin, end, gradient.as<T>(), parameter.as<T>(), first_moment.as<T>(),
            second_moment.as<T>());
    });
}

template void EigenOps<float>::adam(const AdamStep&, const TensorView&, const TensorView&, const TensorView&,
                                    const TensorView&);
template void EigenOps<double>::adam(const AdamStep&, const TensorView&, const TensorView&, const TensorView&,
                                     const TensorView&);

}  // namespace tutti
