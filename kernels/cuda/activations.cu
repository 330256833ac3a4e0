#include "activations.hpp"

#include "../common/activations.hpp"
#include "fast_gelu.hpp"
#include "map.hpp"

namespace tutti::cuda {
namespace {

template <class T>
struct Relu {
    __device__ float operator()(float x) const { return relu(x); }
    __device__ float operator()(float y, float dy) const { return relu_gradient(y, dy); }
};

struct ReluOfSum {
    __device__ float operator()(float a, float b) const { return relu(a + b); }
};

// The outputs may be dy, but not each other.
template <class T, int N>
__global__ void __launch_bounds__(256)
    relu_gradient_twice(const T* y, const T* dy, T* da, T* db, std::int64_t count) {
    for_elements<N>(count, [&]<int M>(std::int64_t i, Lanes<M>) {
        float outputs[M], gradients[M];
        load(y + i, outputs);
        load(dy + i, gradients);
#pragma unroll
        for (int k = 0; k < M; ++k) gradients[k] = relu_gradient(outputs[k], gradients[k]);
        store(da + i, gradients);
        store(db + i, gradients);
    });
}

/// Of the type that results are stored in.
template <template <class> class Function>
void forward(const char* name, const TensorView& x, const TensorView& y, Stream stream) {
    assert(x.count() == y.count() && x.dtype == y.dtype);
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        map(name, Function<T>{}, elements<const T>(x), elements<T>(y), y.count(), stream);
    });
}

template <template <class> class Function>
void backward(const char* name, const TensorView& kept, const TensorView& dy, const TensorView& dx,
              Stream stream) {
    assert(kept.count() == dy.count() && dy.count() == dx.count());
    assert(kept.dtype == dy.dtype && dy.dtype == dx.dtype);
    with_storage(dx.dtype, [&]<class T>(Storage<T>) {
        map(name, Function<T>{}, elements<const T>(kept), elements<const T>(dy), elements<T>(dx), dx.count(),
            stream);
    });
}

}  // namespace

void relu_forward(const TensorView& x, const TensorView& y, Stream stream) {
    forward<Relu>("relu_forward", x, y, stream);
}
void relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx, Stream stream) {
    backward<Relu>("relu_backward", y, dy, dx, stream);
}
void gelu_forward(GeluForm form, const TensorView& x, const TensorView& y, Stream stream) {
    if (form == GeluForm::exact) return forward<Gelu>("gelu_forward", x, y, stream);
    forward<GeluByTanhOf>("gelu_forward", x, y, stream);
}
void gelu_backward(GeluForm form, const TensorView& x, const TensorView& dy, const TensorView& dx,
                   Stream stream) {
    if (form == GeluForm::exact) return backward<Gelu>("gelu_backward", x, dy, dx, stream);
    backward<GeluByTanhOf>("gelu_backward", x, dy, dx, stream);
}

void sum_relu(const TensorView& a, const TensorView& b, const TensorView& y, Stream stream) {
    assert(a.count() == y.count() && b.count() == y.count() && a.dtype == y.dtype && b.dtype == y.dtype);
    with_storage(y.dtype, [&]<class T>(Storage<T>) {
        map("sum_relu", ReluOfSum{}, elements<const T>(a), elements<const T>(b), elements<T>(y), y.count(),
            stream);
    });
}
void sum_relu_backward(const TensorView& y, const TensorView& dy, const TensorView& da, const TensorView& db,
                       Stream stream) {
    assert(y.count() == dy.count() && da.count() == y.count() && db.count() == y.count());
    assert(y.dtype == dy.dtype && da.dtype == y.dtype && db.dtype == y.dtype);
    with_storage(y.dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(aligned(y.data, dy.data, da.data, db.data), [&]<int N>(Lanes<N>) {
            launch("sum_relu_backward", relu_gradient_twice<T, N>, elementwise(divided_up(y.count(), N)),
                   stream, elements<const T>(y), elements<const T>(dy), elements<T>(da), elements<T>(db),
                   y.count());
        });
    });
}

}  // namespace tutti::cuda
