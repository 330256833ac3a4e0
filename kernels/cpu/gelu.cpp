#include "eigen_ops.hpp"
#include "parallel.hpp"
#include "vector_math.hpp"

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
            for (std::int64_t i = begin; i < end; ++i) {
                const T gauss = exp_nonpositive(T(-0.5) * in[i] * in[i]);
                out[i] = in[i] * normal_distribution(in[i], gauss);
            }
        },
        cost);
}

template <class T>
void EigenOps<T>::gelu_backward(const TensorView& x, const TensorView& dy, const TensorView& dx) {
    assert(x.count() == dy.count() && dy.count() == dx.count());
    constexpr T density_at_0 = std::numbers::inv_sqrtpi_v<T> * std::numbers::sqrt2_v<T> / 2;
    const T* in = x.as<T>();
    const T* dout = dy.as<T>();
    T* din = dx.as<T>();
    for_ranges(
        x.count(),
        [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) {
                const T gauss = exp_nonpositive(T(-0.5) * in[i] * in[i]);
                din[i] = dout[i] * (normal_distribution(in[i], gauss) + in[i] * (density_at_0 * gauss));
            }
        },
        cost);
}

template void EigenOps<float>::gelu_forward(const TensorView&, const TensorView&);
template void EigenOps<double>::gelu_forward(const TensorView&, const TensorView&);
template void EigenOps<float>::gelu_backward(const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<double>::gelu_backward(const TensorView&, const TensorView&, const TensorView&);

}  // namespace tutti
