#include "activations.hpp"

#include "../common/activations.hpp"
#include "map.hpp"

namespace tutti::cuda {
namespace {

struct Relu {
    __device__ float operator()(float x) const { return relu(x); }
    __device__ float operator()(float y, float dy) const { return relu_gradient(y, dy); }
};
struct Gelu {
    __device__ float operator()(float x) const { return gelu(x); }
    __device__ float operator()(float x, float dy) const { return gelu_gradient(x, dy); }
};
struct GeluTanh {
    __device__ float operator()(float x) const { return gelu_by_tanh(x); }
    __device__ float operator()(float x, float dy) const { return gelu_by_tanh_gradient(x, dy); }
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

template <class Function>
void forward(const char* name, const Function& f, const TensorView& x, const TensorView& y, Stream stream) {
    assert(x.count() == y.count() && x.dtype == y.dtype);
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        map(name, f, elements<const T>(x), elements<T>(y), y.count(), stream);
    });
}

template <class Function>
void backward(const char* name, const Function& f, const TensorView& kept, const TensorView& dy,
              const TensorView& dx, Stream stream) {
    assert(kept.count() == dy.count() && dy.count() == dx.count());
    assert(kept.dtype == dy.dtype && dy.dtype == dx.dtype);
    with_storage(dx.dtype, [&]<class T>(Storage<T>) {
        map(name, f, elements<const T>(kept), elements<const T>(dy), elements<T>(dx), dx.count(), stream);
    });
}

}  // namespace

void relu_forward(const TensorView& x, const TensorView& y, Stream stream) {
    forward("relu_forward", Relu{}, x, y, stream);
}
void relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx, Stream stream) {
    backward("relu_backward", Relu{}, y, dy, dx, stream);
}
void gelu_forward(GeluForm form, const TensorView& x, const TensorView& y, Stream stream) {
    if (form == GeluForm::exact) return forward("gelu_forward", Gelu{}, x, y, stream);
    forward("gelu_forward", GeluTanh{}, x, y, stream);
}
void gelu_backward(GeluForm form, const TensorView& x, const TensorView& dy, const TensorView& dx,
                   Stream stream) {
    if (form == GeluForm::exact) return backward("gelu_backward", Gelu{}, x, dy, dx, stream);
    backward("gelu_backward", GeluTanh{}, x, dy, dx, stream);
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
            launch("sum_relu_backward", relu_gradient_twice<T, N>, elementwise(divide_up(y.count(), N)),
                   stream, elements<const T>(y), elements<const T>(dy), elements<T>(da), elements<T>(db),
                   y.count());
        });
    });
}

}  // namespace tutti::cuda
