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

template void EigenOps<float>::fill(const TensorView&, double);
template void EigenOps<double>::fill(const TensorView&, double);
template void EigenOps<float>::add(const TensorView&, const TensorView&);
template void EigenOps<double>::add(const TensorView&, const TensorView&);

}  // namespace tutti
