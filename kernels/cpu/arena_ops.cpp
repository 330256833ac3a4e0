// What the trainer does with whole arenas besides the update rules: clipping, averaging, exchanging.

#include <utility>

#include "../common/interpolation.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {

template <class T>
void EigenOps<T>::scale(double factor, const TensorView& x) {
    T* values = x.as<T>();
    const T by = static_cast<T>(factor);
    for_ranges(x.count(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) values[i] *= by;
    });
}

template <class T>
void EigenOps<T>::lerp(double weight, const TensorView& x, const TensorView& y) {
    assert(x.count() == y.count());
    const T* __restrict towards = x.as<T>();
    T* __restrict average = y.as<T>();
    const bool near_start = weight < 0.5;
    const T near = static_cast<T>(near_start ? weight : 1 - weight);
    for_ranges(x.count(), [=](std::int64_t begin, std::int64_t end) {
        if (near_start) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i)
                average[i] = lerp_near_start(near, towards[i], average[i]);
        } else {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i)
                average[i] = lerp_near_end(near, towards[i], average[i]);
        }
    });
}

template <class T>
void EigenOps<T>::swap(const TensorView& x, const TensorView& y) {
    assert(x.count() == y.count());
    T* __restrict a = x.as<T>();
    T* __restrict b = y.as<T>();
    for_ranges(x.count(), [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) std::swap(a[i], b[i]);
    });
}

template void EigenOps<float>::scale(double, const TensorView&);
template void EigenOps<double>::scale(double, const TensorView&);
template void EigenOps<float>::lerp(double, const TensorView&, const TensorView&);
template void EigenOps<double>::lerp(double, const TensorView&, const TensorView&);
template void EigenOps<float>::swap(const TensorView&, const TensorView&);
template void EigenOps<double>::swap(const TensorView&, const TensorView&);

}  // namespace tutti
