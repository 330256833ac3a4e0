// torch.optim.Adadelta, in its order of operations. Scalars are computed in double and rounded once.

#include <cmath>

#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

template <class T>
struct Adadelta {
    T lr, rho, one_minus_rho, eps, weight_decay;

    void run(std::int64_t begin, std::int64_t end, const T* __restrict gradient, T* __restrict parameter,
             T* __restrict square_average, T* __restrict delta_average) const {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            const T g = gradient[i] + weight_decay * parameter[i];
            const T v = square_average[i] * rho + one_minus_rho * g * g;
            const T delta = std::sqrt(delta_average[i] + eps) / std::sqrt(v + eps) * g;
            square_average[i] = v;
            delta_average[i] = delta_average[i] * rho + one_minus_rho * delta * delta;
            parameter[i] -= lr * delta;
        }
    }
};

}  // namespace

template <class T>
void EigenOps<T>::adadelta(const AdadeltaStep& step, const TensorView& gradient, const TensorView& parameter,
                           const TensorView& square_average, const TensorView& delta_average) {
    assert(gradient.count() == parameter.count());
    assert(square_average.count() == parameter.count() && delta_average.count() == parameter.count());
    const Adadelta<T> adadelta{static_cast<T>(step.lr), static_cast<T>(step.rho),
                               static_cast<T>(1 - step.rho), static_cast<T>(step.eps),
                               static_cast<T>(step.weight_decay)};
    for_ranges(parameter.count(), [&](std::int64_t begin, std::int64_t end) {
        adadelta.run(begin, end, gradient.as<T>(), parameter.as<T>(), square_average.as<T>(),
                     delta_average.as<T>());
    });
}

template void EigenOps<float>::adadelta(const AdadeltaStep&, const TensorView&, const TensorView&,
                                        const TensorView&, const TensorView&);
template void EigenOps<double>::adadelta(const AdadeltaStep&, const TensorView&, const TensorView&,
                                         const TensorView&, const TensorView&);

}  // namespace tutti
