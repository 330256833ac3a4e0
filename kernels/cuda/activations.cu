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
void gelu_forward(const TensorView& x, const TensorView& y, Stream stream) {
    forward("gelu_forward", Gelu{}, x, y, stream);
}
void gelu_backward(const TensorView& x, const TensorView& dy, const TensorView& dx, Stream stream) {
    backward("gelu_backward", Gelu{}, x, dy, dx, stream);
}

}  // namespace tutti::cuda
