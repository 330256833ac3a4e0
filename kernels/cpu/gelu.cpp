#include "../common/activations.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

// What an element costs, in elements of a plain loop.
constexpr std::int64_t cost = 16;

template <class T, class Function>
void map(const TensorView& x, const TensorView& y, const Function& function) {
    assert(x.count() == y.count());
    const T* in = x.as<T>();
    T* out = y.as<T>();
    for_ranges(
        x.count(),
        [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) out[i] = function(in[i]);
        },
        cost);
}

template <class T, class Function>
void map(const TensorView& x, const TensorView& dy, const TensorView& dx, const Function& function) {
    assert(x.count() == dy.count() && dy.count() == dx.count());
    const T* in = x.as<T>();
    const T* dout = dy.as<T>();
    T* din = dx.as<T>();
    for_ranges(
        x.count(),
        [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) din[i] = function(in[i], dout[i]);
        },
        cost);
}

}  // namespace

template <class T>
void EigenOps<T>::gelu_forward(GeluForm form, const TensorView& x, const TensorView& y) {
    if (form == GeluForm::exact)
        map<T>(x, y, [](T value) { return gelu(value); });
    else
        map<T>(x, y, [](T value) { return gelu_by_tanh(value); });
}

template <class T>
void EigenOps<T>::gelu_backward(GeluForm form, const TensorView& x, const TensorView& dy,
                                const TensorView& dx) {
    if (form == GeluForm::exact)
        map<T>(x, dy, dx, [](T value, T gradient) { return gelu_gradient(value, gradient); });
    else
        map<T>(x, dy, dx, [](T value, T gradient) { return gelu_by_tanh_gradient(value, gradient); });
}

template void EigenOps<float>::gelu_forward(GeluForm, const TensorView&, const TensorView&);
template void EigenOps<double>::gelu_forward(GeluForm, const TensorView&, const TensorView&);
template void EigenOps<float>::gelu_backward(GeluForm, const TensorView&, const TensorView&,
                                             const TensorView&);
template void EigenOps<double>::gelu_backward(GeluForm, const TensorView&, const TensorView&,
                                              const TensorView&);

}  // namespace tutti
