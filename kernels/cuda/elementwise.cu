#include "elementwise.hpp"

#include "map.hpp"

namespace tutti::cuda {
namespace {

struct Plus {
    __device__ float operator()(float a, float b) const { return a + b; }
};

template <class T, int N>
__global__ void __launch_bounds__(256) fill_all(float value, T* RESTRICT x, std::int64_t count) {
    for_elements<N>(count, [&]<int M>(std::int64_t i, Lanes<M>) {
        float values[M];
#pragma unroll
        for (int k = 0; k < M; ++k) values[k] = value;
        store(x + i, values);
    });
}

template <class T, int N>
__global__ void __launch_bounds__(256) exchange(T* RESTRICT x, T* RESTRICT y, std::int64_t count) {
    for_elements<N>(count, [&]<int M>(std::int64_t i, Lanes<M>) {
        float a[M], b[M];
        load(x + i, a);
        load(y + i, b);
        store(x + i, b);
        store(y + i, a);
    });
}

// y may be x: neither is RESTRICT.
template <class T, int N>
__global__ void __launch_bounds__(256)
    scale_each(const T* x, const double* RESTRICT factors, std::int64_t size, std::int64_t count, T* y) {
    const std::int64_t vectors = count / N;
    for (std::int64_t i = grid_thread(); i < vectors; i += grid_threads()) {
        const float factor = static_cast<float>(factors[i * N / size]);
        float values[N];
        load(x + i * N, values);
#pragma unroll
        for (int k = 0; k < N; ++k) values[k] = factor * values[k];
        store(y + i * N, values);
    }
}

}  // namespace

void fill(const TensorView& x, double value, Stream stream) {
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(aligned(x.data), [&]<int N>(Lanes<N>) {
            launch("fill", fill_all<T, N>, elementwise(divided_up(x.count(), N)), stream,
                   static_cast<float>(value), elements<T>(x), x.count());
        });
    });
}

void sum(const TensorView& a, const TensorView& b, const TensorView& y, Stream stream) {
    assert(a.count() == y.count() && b.count() == y.count() && a.dtype == y.dtype && b.dtype == y.dtype);
    with_storage(y.dtype, [&]<class T>(Storage<T>) {
        map("sum", Plus{}, elements<const T>(a), elements<const T>(b), elements<T>(y), y.count(), stream);
    });
}

void swap(const TensorView& x, const TensorView& y, Stream stream) {
    assert(x.count() == y.count() && x.dtype == y.dtype);
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(aligned(x.data, y.data), [&]<int N>(Lanes<N>) {
            launch("swap", exchange<T, N>, elementwise(divided_up(x.count(), N)), stream, elements<T>(x),
                   elements<T>(y), x.count());
        });
    });
}

void scale_samples(const TensorView& x, const TensorView& factors, const TensorView& y, Stream stream) {
    assert(x.count() == y.count() && x.dtype == y.dtype && factors.count() == x.shape[0]);
    if (x.count() == 0) return;
    const std::int64_t size = x.count() / x.shape[0];
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        const bool wide = whole_vectors<T>(size, x.data, y.data);
        with_lanes<T>(wide, [&]<int N>(Lanes<N>) {
            launch("scale_samples", scale_each<T, N>, elementwise(x.count() / N), stream,
                   elements<const T>(x), factors.as<double>(), size, x.count(), elements<T>(y));
        });
    });
}

}  // namespace tutti::cuda
