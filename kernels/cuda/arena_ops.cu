#include "arena_ops.hpp"

#include "../common/interpolation.hpp"
#include "map.hpp"

namespace tutti::cuda {
namespace {

struct Same {
    __device__ float operator()(float x) const { return x; }
};
struct Plus {
    __device__ float operator()(float x, float y) const { return y + x; }
};
struct Times {
    const double* factor;
    __device__ float operator()(float x) const { return x * static_cast<float>(*factor); }
};
struct Lerp {
    float near;
    bool from_start;
    __device__ float operator()(float x, float y) const {
        return from_start ? lerp_near_start(near, x, y) : lerp_near_end(near, x, y);
    }
};

}  // namespace

void cast(const TensorView& x, const TensorView& y, Stream stream) {
    assert(x.count() == y.count());
    with_storage(x.dtype, [&]<class In>(Storage<In>) {
        with_storage(y.dtype, [&]<class Out>(Storage<Out>) {
            map("cast", Same{}, elements<const In>(x), elements<Out>(y), y.count(), stream);
        });
    });
}

void accumulate(const TensorView& x, const TensorView& y, Stream stream) {
    assert(x.count() == y.count());
    float* sum = y.as<float>();
    with_storage(x.dtype, [&]<class In>(Storage<In>) {
        map("accumulate", Plus{}, elements<const In>(x), static_cast<const float*>(sum), sum, y.count(),
            stream);
    });
}

void scale(const TensorView& factor, const TensorView& x, Stream stream) {
    assert(factor.count() == 1);
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        map("scale", Times{factor.as<double>()}, elements<const T>(x), elements<T>(x), x.count(), stream);
    });
}

void lerp(double weight, const TensorView& x, const TensorView& y, Stream stream) {
    assert(x.count() == y.count() && x.dtype == y.dtype);
    const bool from_start = weight < 0.5;
    const Lerp towards{static_cast<float>(from_start ? weight : 1 - weight), from_start};
    with_storage(y.dtype, [&]<class T>(Storage<T>) {
        map("lerp", towards, elements<const T>(x), elements<const T>(y), elements<T>(y), y.count(), stream);
    });
}

}  // namespace tutti::cuda
