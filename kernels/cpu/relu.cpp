#include "relu.hpp"

#include <type_traits>

#include "../common/activations.hpp"
#include "bf16_value.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {

namespace {

template <class S>
using ComputedAs = std::conditional_t<std::is_same_v<S, Bf16Value>, float, S>;

}  // namespace

template <class S>
void relu_forward(const S* x, std::int64_t count, S* y) {
    using T = ComputedAs<S>;
    for_ranges(count, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) y[i] = stored_as<S>(relu(number_of<T>(x[i])));
    });
}

template <class S>
void relu_backward(const S* y, const S* dy, std::int64_t count, S* dx) {
    using T = ComputedAs<S>;
    for_ranges(count, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            const auto gradient =
                number_of<T>(dy[i]);  // in any case: a read under a condition would be a branch
            dx[i] = stored_as<S>(relu_gradient(number_of<T>(y[i]), gradient));
        }
    });
}

template <class T>
void EigenOps<T>::relu_forward(const TensorView& x, const TensorView& y) {
    assert(x.count() == y.count());
    as_stored<T>(x, [&]<class S>() { tutti::relu_forward(x.as<S>(), x.count(), y.as<S>()); });
}

template <class T>
void EigenOps<T>::relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx) {
    assert(y.count() == dy.count() && dy.count() == dx.count());
    as_stored<T>(y, [&]<class S>() { tutti::relu_backward(y.as<S>(), dy.as<S>(), y.count(), dx.as<S>()); });
}

template void relu_forward(const float*, std::int64_t, float*);
template void relu_forward(const double*, std::int64_t, double*);
template void relu_backward(const float*, const float*, std::int64_t, float*);
template void relu_backward(const double*, const double*, std::int64_t, double*);

template void EigenOps<float>::relu_forward(const TensorView&, const TensorView&);
template void EigenOps<double>::relu_forward(const TensorView&, const TensorView&);
template void EigenOps<float>::relu_backward(const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<double>::relu_backward(const TensorView&, const TensorView&, const TensorView&);

}  // namespace tutti
