#include "../common/activations.hpp"
#include "bf16_value.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {

template <class T>
void EigenOps<T>::fill(const TensorView& x, double value) {
    as_stored<T>(x, [&]<class S>() {
        S* out = x.as<S>();
        for_ranges(x.count(), [out, value](std::int64_t begin, std::int64_t end) {
            std::fill(out + begin, out + end, stored_as<S>(static_cast<T>(value)));
        });
    });
}

template <class T>
void EigenOps<T>::add(const TensorView& x, const TensorView& y) {
    assert(x.count() == y.count());
    as_stored<T>(x, [&]<class S>() {
        const S* in = x.as<S>();
        S* sum = y.as<S>();
        for_ranges(x.count(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i)
                sum[i] = stored_as<S>(number_of<T>(sum[i]) + number_of<T>(in[i]));
        });
    });
}

template <class T>
void EigenOps<T>::copy(const TensorView& x, const TensorView& y) {
    assert(x.count() == y.count());
    if (x.data == y.data) return;
    as_stored<T>(x, [&]<class S>() {
        const S* in = x.as<S>();
        S* out = y.as<S>();
        for_ranges(x.count(), [=](std::int64_t begin, std::int64_t end) {
            std::copy(in + begin, in + end, out + begin);
        });
    });
}

template <class T>
void EigenOps<T>::sum(const TensorView& a, const TensorView& b, const TensorView& y) {
    assert(a.count() == y.count() && b.count() == y.count());
    as_stored<T>(y, [&]<class S>() {
        const S* first = a.as<S>();
        const S* second = b.as<S>();
        S* out = y.as<S>();
        for_ranges(y.count(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i)
                out[i] = stored_as<S>(number_of<T>(first[i]) + number_of<T>(second[i]));
        });
    });
}

template <class T>
void EigenOps<T>::sum_relu(const TensorView& a, const TensorView& b, const TensorView& y) {
    assert(a.count() == y.count() && b.count() == y.count());
    as_stored<T>(y, [&]<class S>() {
        const S* first = a.as<S>();
        const S* second = b.as<S>();
        S* out = y.as<S>();
        for_ranges(y.count(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i)
                out[i] = stored_as<S>(relu(number_of<T>(first[i]) + number_of<T>(second[i])));
        });
    });
}

template <class T>
void EigenOps<T>::sum_relu_backward(const TensorView& y, const TensorView& dy, const TensorView& da,
                                    const TensorView& db) {
    assert(y.count() == dy.count() && da.count() == dy.count() && db.count() == dy.count());
    as_stored<T>(y, [&]<class S>() {
        const S* out = y.as<S>();
        const S* dout = dy.as<S>();
        S* first = da.as<S>();
        S* second = db.as<S>();
        for_ranges(y.count(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) {
                // Read in any case: a read under a condition would be a branch.
                const auto gradient = number_of<T>(dout[i]);
                first[i] = second[i] = stored_as<S>(relu_gradient(number_of<T>(out[i]), gradient));
            }
        });
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
