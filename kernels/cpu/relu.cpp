#include "relu.hpp"

#include "../common/activations.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {

template <class T>
void relu_forward(const T* x, std::int64_t count, T* y) {
    for_ranges(count, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) y[i] = relu(x[i]);
    });
}

template <class T>
void relu_backward(const T* y, const T* dy, std::int64_t count, T* dx) {
    for_ranges(count, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            const T gradient = dy[i];  // read in any case: a read under a condition would be a branch
            dx[i] = relu_gradient(y[i], gradient);
        }
    });
}

template <class T>
void EigenOps<T>::relu_forward(const TensorView& x, const TensorView& y) {
    assert(x.count() == y.count());
    tutti::relu_forward(x.as<T>(), x.count(), y.as<T>());
}

template <class T>
void EigenOps<T>::relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx) {
    assert(y.count() == dy.count() && dy.count() == dx.count());
    tutti::relu_backward(y.as<T>(), dy.as<T>(), y.count(), dx.as<T>());
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
