#include "../common/activations.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {

template <class T>
void EigenOps<T>::fill(const TensorView& x, double value) {
    T* out = x.as<T>();
    for_ranges(x.count(), [out, value](std::int64_t begin, std::int64_t end) {
        std::fill(out + begin, out + end, static_cast<T>(value));
    });
}

template <class T>
void EigenOps<T>::add(const TensorView& x, const TensorView& y) {
    assert(x.count() == y.count());
    const T* in = x.as<T>();
    T* sum = y.as<T>();
    for_ranges(x.count(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) sum[i] += in[i];
    });
}

template <class T>
void EigenOps<T>::copy(const TensorView& x, const TensorView& y) {
    assert(x.count() == y.count());
    if (x.data == y.data) return;
    const T* in = x.as<T>();
    T* out = y.as<T>();
    for_ranges(x.count(),
               [=](std::int64_t begin, std::int64_t end) { std::copy(in + begin, in + end, out + begin); });
}

template <class T>
void EigenOps<T>::sum(const TensorView& a, const TensorView& b, const TensorView& y) {
    assert(a.count() == y.count() && b.count() == y.count());
    const T* first = a.as<T>();
    const T* second = b.as<T>();
    T* out = y.as<T>();
    for_ranges(y.count(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) out[i] = first[i] + second[i];
    });
}

template <class T>
void EigenOps<T>::sum_relu(const TensorView& a, const TensorView& b, const TensorView& y) {
    assert(a.count() == y.count() && b.count() == y.count());
    const T* first = a.as<T>();
    const T* second = b.as<T>();
    T* out = y.as<T>();
    for_ranges(y.count(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) out[i] = relu(first[i] + second[i]);
    });
}

template <class T>
void EigenOps<T>::sum_relu_backward(const TensorView& y, const TensorView& dy, const TensorView& da,
                                    const TensorView& db) {
    assert(y.count() == dy.count() && da.count() == dy.count() && db.count() == dy.count());
    const T* out = y.as<T>();
    const T* dout = dy.as<T>();
    T* first = da.as<T>();
    T* second = db.as<T>();
    for_ranges(y.count(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            const T gradient = dout[i];  // read in any case: a read under a condition would be a branch
            first[i] = second[i] = relu_gradient(out[i], gradient);
        }
    });
}

template void EigenOps<float>::fill(const TensorView&, double);
template void EigenOps<double>::fill(const TensorView&, double);
template void EigenOps<float>::copy(const TensorView&, const TensorView&);
template void EigenOps<double>::copy(const TensorView&, const TensorView&);
template void EigenOps<float>::sum(const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<double>::sum(const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<float>::sum_relu(const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<double>::sum_relu(const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<float>::sum_relu_backward(const TensorView&, const TensorView&, const TensorView&,
                                                 const TensorView&);
template void EigenOps<double>::sum_relu_backward(const TensorView&, const TensorView&, const TensorView&,
                                                  const TensorView&);
template void EigenOps<float>::add(const TensorView&, const TensorView&);
template void EigenOps<double>::add(const TensorView&, const TensorView&);

}  // namespace tutti
