#include "../common/activations.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

// What an element costs, in elements of a plain loop.
constexpr std::int64_t cost = 16;

}  // namespace

template <class T>
void EigenOps<T>::gelu_forward(const TensorView& x, const TensorView& y) {
    assert(x.count() == y.count());
    const T* in = x.as<T>();
    T* out = y.as<T>();
    for_ranges(
        x.count(),
        [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) out[i] = gelu(in[i]);
        },
        cost);
}

template <class T>
void EigenOps<T>::gelu_backward(const TensorView& x, const TensorView& dy, const TensorView& dx) {
    assert(x.count() == dy.count() && dy.count() == dx.count());
    const T* in = x.as<T>();
    const T* dout = dy.as<T>();
    T* din = dx.as<T>();
    for_ranges(
        x.count(),
        [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) din[i] = gelu_gradient(in[i], dout[i]);
        },
        cost);
}

template void EigenOps<float>::gelu_forward(const TensorView&, const TensorView&);
template void EigenOps<double>::gelu_forward(const TensorView&, const TensorView&);
template void EigenOps<float>::gelu_backward(const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<double>::gelu_backward(const TensorView&, const TensorView&, const TensorView&);

}  // namespace tutti
