// Tokens of samples: embedding and pooling, and what treats each sample on its own.

#include <algorithm>

#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {

template <class T>
void EigenOps<T>::scale_samples(const TensorView& x, std::span<const double> factors, const TensorView& y) {
    const auto samples = static_cast<std::int64_t>(factors.size());
    assert(x.shape[0] == samples && x.count() == y.count());
    if (samples == 0) return;
    const std::int64_t size = x.count() / samples;
    const T* in = x.as<T>();
    T* out = y.as<T>();
    for_ranges(
        samples,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                const T factor = static_cast<T>(factors[static_cast<std::size_t>(n)]);
                const T* from = in + n * size;
                T* to = out + n * size;
#pragma omp simd
                for (std::int64_t i = 0; i < size; ++i) to[i] = factor * from[i];
            }
        },
        size);
}

template <class T>
void EigenOps<T>::embed_tokens_forward(const TensorView& x, const TensorView& class_token,
                                       const TensorView& positions, const TensorView& y) {
    const std::int64_t samples = x.shape[0], width = x.shape[2];
    const std::int64_t first = class_token.defined() ? width : 0;
    const std::int64_t size = x.shape[1] * width;
    assert(positions.count() == first + size && y.count() == samples * (first + size));
    const T* in = x.as<T>();
    const T* token = class_token.defined() ? class_token.as<T>() : nullptr;
    const T* position = positions.as<T>();
    T* out = y.as<T>();
    for_ranges(
        samples,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                const T* from = in + n * size;
                T* to = out + n * (first + size);
#pragma omp simd
                for (std::int64_t i = 0; i < first; ++i) to[i] = token[i] + position[i];
#pragma omp simd
                for (std::int64_t i = 0; i < size; ++i) to[first + i] = from[i] + position[first + i];
            }
        },
        first + size);
}

template <class T>
void EigenOps<T>::embed_tokens_backward(const TensorView& dy, const TensorView& dx,
                                        const TensorView& dclass_token, const TensorView& dpositions) {
    const std::int64_t samples = dy.shape[0], size = dpositions.count();
    const std::int64_t first = dclass_token.defined() ? dclass_token.count() : 0;
    assert(dy.count() == samples * size && (!dx.defined() || dx.count() == samples * (size - first)));
    const T* dout = dy.as<T>();
    sum_rows(dout, samples, size, dpositions.as<T>());
    if (first > 0) std::copy_n(dpositions.as<T>(), first, dclass_token.as<T>());
    if (!dx.defined()) return;
    T* din = dx.as<T>();
    for_ranges(
        samples,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n)
                std::copy_n(dout + n * size + first, size - first, din + n * (size - first));
        },
        size);
}

template <class T>
void EigenOps<T>::pool_tokens_forward(TokenPooling pooling, const TensorView& x, const TensorView& y) {
    const std::int64_t samples = x.shape[0], tokens = x.shape[1], width = x.shape[2];
    assert(y.count() == samples * width);
    const std::int64_t pooled = pooling == TokenPooling::first ? 1 : tokens;
    const T* in = x.as<T>();
    T* out = y.as<T>();
    for_ranges(
        samples,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                const T* from = in + n * tokens * width;
                T* to = out + n * width;
                std::copy_n(from, width, to);
                for (std::int64_t t = 1; t < pooled; ++t)
#pragma omp simd
                    for (std::int64_t i = 0; i < width; ++i) to[i] += from[t * width + i];
                if (pooled > 1)
#pragma omp simd
                    for (std::int64_t i = 0; i < width; ++i) to[i] /= static_cast<T>(pooled);
            }
        },
        pooled * width);
}

template <class T>
void EigenOps<T>::pool_tokens_backward(TokenPooling pooling, const TensorView& dy, const TensorView& dx) {
    const std::int64_t samples = dx.shape[0], tokens = dx.shape[1], width = dx.shape[2];
    assert(dy.count() == samples * width);
    const std::int64_t pooled = pooling == TokenPooling::first ? 1 : tokens;
    const T* dout = dy.as<T>();
    T* din = dx.as<T>();
    for_ranges(
        samples,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                const T* from = dout + n * width;
                T* to = din + n * tokens * width;
                for (std::int64_t t = 0; t < pooled; ++t)
#pragma omp simd
                    for (std::int64_t i = 0; i < width; ++i)
                        to[t * width + i] = from[i] / static_cast<T>(pooled);
                std::fill(to + pooled * width, to + tokens * width, T(0));
            }
        },
        tokens * width);
}

#define TUTTI_INSTANTIATE(T)                                                                                 \
    template void EigenOps<T>::scale_samples(const TensorView&, std::span<const double>, const TensorView&); \
    template void EigenOps<T>::embed_tokens_forward(const TensorView&, const TensorView&, const TensorView&, \
                                                    const TensorView&);                                      \
    template void EigenOps<T>::embed_tokens_backward(const TensorView&, const TensorView&,                   \
                                                     const TensorView&, const TensorView&);                  \
    template void EigenOps<T>::pool_tokens_forward(TokenPooling, const TensorView&, const TensorView&);      \
    template void EigenOps<T>::pool_tokens_backward(TokenPooling, const TensorView&, const TensorView&)
TUTTI_INSTANTIATE(float);
TUTTI_INSTANTIATE(double);
#undef TUTTI_INSTANTIATE

}  // namespace tutti
