#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {

// Both comparisons are false for NaN, which therefore passes, as in PyTorch: a diverged run must show, not
// hide.

template <class T>
void EigenOps<T>::relu_forward(const TensorView& x, const TensorView& y) {
    assert(x.count() == y.count());
    const T* in = x.as<T>();
    T* out = y.as<T>();
    for_ranges(x.count(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) out[i] = in[i] <= T(0) ? T(0) : in[i];
    });
}

template <class T>
void EigenOps<T>::relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx) {
    assert(y.count() == dy.count() && dy.count() == dx.count());
    const T* out = y.as<T>();
    const T* dout = dy.as<T>();
    T* din = dx.as<T>();
    for_ranges(y.count(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            const T gradient = dout[i];  // read in any case: a read under a condition would be a branch
            din[i] = out[i] <= T(0) ? T(0) : gradient;
        }
    });
}

template void EigenOps<float>::relu_forward(const TensorView&, const TensorView&);
template void EigenOps<double>::relu_forward(const TensorView&, const TensorView&);
template void EigenOps<float>::relu_backward(const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<double>::relu_backward(const TensorView&, const TensorView&, const TensorView&);

}  // namespace tutti
