#include "tokens.hpp"

#include "pixels.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

/// Sizes in vectors of N elements.
struct Rows {
    unsigned items, tokens, groups;
};

/// y[n] = {class token, x[n]} + positions: `tokens` are y's, `extra` is 1 with a class token, else 0.
template <class T, int N>
__global__ void __launch_bounds__(256, 1)
    embed(Rows s, unsigned extra, const T* RESTRICT x, const T* RESTRICT class_token,
          const T* RESTRICT positions, T* RESTRICT y) {
    for_items(s.items, [&](unsigned item) {
        const unsigned group = item % s.groups, row = item / s.groups;
        const unsigned token = row % s.tokens, sample = row / s.tokens;
        const std::int64_t from = static_cast<std::int64_t>(sample) * (s.tokens - extra) + token - extra;
        float value[N], position[N];
        if (token < extra)
            load(class_token + group * N, value);
        else
            load(x + (from * s.groups + group) * N, value);
        load(positions + (token * s.groups + group) * N, position);
#pragma unroll
        for (int k = 0; k < N; ++k) value[k] += position[k];
        store(y + std::int64_t{item} * N, value);
    });
}

/// A thread sums one vector of dpositions over the batch, and copies what it reads to dx.
template <class T, int N>
__global__ void __launch_bounds__(256, 1)
    embed_backward(std::int64_t samples, std::int64_t size, std::int64_t first, const T* RESTRICT dy,
                   T* RESTRICT dx, float* RESTRICT dclass_token, float* RESTRICT dpositions) {
    for (std::int64_t i = grid_thread() * N; i < size; i += grid_threads() * N) {
        float sum[N] = {};
#pragma unroll 4
        for (std::int64_t n = 0; n < samples; ++n) {
            float value[N];
            load(dy + n * size + i, value);
#pragma unroll
            for (int k = 0; k < N; ++k) sum[k] += value[k];
            if (dx != nullptr && i >= first) store(dx + n * (size - first) + i - first, value);
        }
        store(dpositions + i, sum);
        if (i < first) store(dclass_token + i, sum);
    }
}

/// `pooled` is the number of tokens that count: 1 or all.
template <class T, int N>
__global__ void __launch_bounds__(256, 1) pool(Rows s, unsigned pooled, const T* RESTRICT x, T* RESTRICT y) {
    for_items(s.items, [&](unsigned item) {
        const unsigned group = item % s.groups, sample = item / s.groups;
        const T* rows = x + (static_cast<std::int64_t>(sample) * s.tokens * s.groups + group) * N;
        float sum[N];
        load(rows, sum);
#pragma unroll 4
        for (unsigned t = 1; t < pooled; ++t) {
            float value[N];
            load(rows + static_cast<std::int64_t>(t) * s.groups * N, value);
#pragma unroll
            for (int k = 0; k < N; ++k) sum[k] += value[k];
        }
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] /= static_cast<float>(pooled);
        store(y + std::int64_t{item} * N, sum);
    });
}

template <class T, int N>
__global__ void __launch_bounds__(256, 1)
    pool_backward(Rows s, unsigned pooled, const T* RESTRICT dy, T* RESTRICT dx) {
    for_items(s.items, [&](unsigned item) {
        const unsigned group = item % s.groups, row = item / s.groups;
        float value[N] = {};
        if (row % s.tokens < pooled) {
            load(dy + (static_cast<std::int64_t>(row / s.tokens) * s.groups + group) * N, value);
#pragma unroll
            for (int k = 0; k < N; ++k) value[k] /= static_cast<float>(pooled);
        }
        store(dx + std::int64_t{item} * N, value);
    });
}

}  // namespace

void embed_tokens_forward(const TensorView& x, const TensorView& class_token, const TensorView& positions,
                          const TensorView& y, Stream stream) {
    const std::int64_t samples = x.shape[0], width = x.shape[2], extra = class_token.defined() ? 1 : 0;
    const std::int64_t tokens = x.shape[1] + extra, size = tokens * width;
    assert(positions.count() == size && y.count() == samples * size && x.dtype == y.dtype);
    assert(positions.dtype == x.dtype && (extra == 0 || class_token.dtype == x.dtype));
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(
            whole_vectors<T>(width, x.data, class_token.data, positions.data, y.data), [&]<int N>(Lanes<N>) {
                for_samples(samples, size / N, [&](std::int64_t first, std::int64_t, unsigned items) {
                    launch("embed_tokens_forward", embed<T, N>, elementwise(items), stream,
                           Rows{items, narrow(tokens), narrow(width / N)}, narrow(extra),
                           elements<const T>(x) + first * (tokens - extra) * width,
                           elements<const T>(class_token), elements<const T>(positions),
                           elements<T>(y) + first * size);
                });
            });
    });
}

void embed_tokens_backward(const TensorView& dy, const TensorView& dx, const TensorView& dclass_token,
                           const TensorView& dpositions, Stream stream) {
    const std::int64_t samples = dy.shape[0], size = dpositions.count();
    const std::int64_t first = dclass_token.defined() ? dclass_token.count() : 0;
    assert(dy.count() == samples * size && (!dx.defined() || dx.count() == samples * (size - first)));
    with_storage(dy.dtype, [&]<class T>(Storage<T>) {
        // A class token takes whole vectors, too, so that none is half of it.
        const bool whole = size % vector_size<T> == 0 && first % vector_size<T> == 0;
        with_lanes<T>(whole && aligned(dy.data, dx.data, dclass_token.data, dpositions.data),
                      [&]<int N>(Lanes<N>) {
                          launch("embed_tokens_backward", embed_backward<T, N>, elementwise(size / N), stream,
                                 samples, size, first, elements<const T>(dy), elements<T>(dx),
                                 first > 0 ? dclass_token.as<float>() : nullptr, dpositions.as<float>());
                      });
    });
}

void pool_tokens_forward(TokenPooling pooling, const TensorView& x, const TensorView& y, Stream stream) {
    const std::int64_t samples = x.shape[0], tokens = x.shape[1], width = x.shape[2];
    const std::int64_t pooled = pooling == TokenPooling::first ? 1 : tokens;
    assert(y.count() == samples * width && x.dtype == y.dtype);
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(whole_vectors<T>(width, x.data, y.data), [&]<int N>(Lanes<N>) {
            for_samples(samples, width / N, [&](std::int64_t first, std::int64_t, unsigned items) {
                launch("pool_tokens_forward", pool<T, N>, elementwise(items), stream,
                       Rows{items, narrow(tokens), narrow(width / N)}, narrow(pooled),
                       elements<const T>(x) + first * tokens * width, elements<T>(y) + first * width);
            });
        });
    });
}

void pool_tokens_backward(TokenPooling pooling, const TensorView& dy, const TensorView& dx, Stream stream) {
    const std::int64_t samples = dx.shape[0], tokens = dx.shape[1], width = dx.shape[2];
    const std::int64_t pooled = pooling == TokenPooling::first ? 1 : tokens;
    assert(dy.count() == samples * width && dx.dtype == dy.dtype);
    with_storage(dx.dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(whole_vectors<T>(width, dx.data, dy.data), [&]<int N>(Lanes<N>) {
            for_samples(samples, tokens * width / N, [&](std::int64_t first, std::int64_t, unsigned items) {
                launch("pool_tokens_backward", pool_backward<T, N>, elementwise(items), stream,
                       Rows{items, narrow(tokens), narrow(width / N)}, narrow(pooled),
                       elements<const T>(dy) + first * width, elements<T>(dx) + first * tokens * width);
            });
        });
    });
}

}  // namespace tutti::cuda
