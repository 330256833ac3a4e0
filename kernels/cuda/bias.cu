#include "bias.hpp"

#include "../common/activations.hpp"
#include "channel_tiles.hpp"
#include "fast_gelu.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

struct None {
    static constexpr bool keeps = false;
    __device__ float operator()(float sum) const { return sum; }
    __device__ float gradient(float, float, float dy) const { return dy; }
};
struct Relu {
    static constexpr bool keeps = true;
    __device__ float operator()(float sum) const { return relu(sum); }
    __device__ float gradient(float y, float, float dy) const { return relu_gradient(y, dy); }
};
template <class T>
struct GeluOfSum {
    static constexpr bool keeps = true;
    __device__ float operator()(float sum) const { return Gelu<T>{}(sum); }
    __device__ float gradient(float x, float bias, float dy) const { return Gelu<T>{}(x + bias, dy); }
};

template <class T, int N, class Activation>
__global__ void __launch_bounds__(tile_threads, 6)
    forward(Activation activation, const T* x, const float* RESTRICT bias, ChannelTiles tiles, T* y) {
    const TilePlace place = tile_place<N>(tiles);
    float shift[N] = {};
    if (place.channel < tiles.channels) load(bias + place.channel, shift);
    for (std::int64_t row = place.row; row < place.end; row += place.step) {
        const std::int64_t first = row * tiles.channels + place.channel;
        float value[N];
        load(x + first, value);
#pragma unroll
        for (int k = 0; k < N; ++k) value[k] = activation(value[k] + shift[k]);
        store(y + first, value);
    }
}

template <class T, int N, class Activation>
__global__ void __launch_bounds__(tile_threads, 5)
    backward(Activation activation, const T* RESTRICT kept, const float* RESTRICT bias, const T* dy,
             ChannelTiles tiles, T* dx, double* RESTRICT parts) {
    const TilePlace place = tile_place<N>(tiles);
    float shift[N] = {}, sums[1][N] = {};
    if (Activation::keeps && bias && place.channel < tiles.channels) load(bias + place.channel, shift);
    std::int64_t row = place.row;
    if constexpr (!Activation::keeps) {
        // So few instructions that what counts is how many loads are under way.
        constexpr int batch = 4;
        for (; row + (batch - 1) * place.step < place.end; row += batch * place.step) {
            float gradients[batch][N];
#pragma unroll
            for (int i = 0; i < batch; ++i)
                load(dy + (row + i * place.step) * tiles.channels + place.channel, gradients[i]);
#pragma unroll
            for (int i = 0; i < batch; ++i) {
#pragma unroll
                for (int k = 0; k < N; ++k) sums[0][k] += gradients[i][k];
            }
        }
    }
    for (; row < place.end; row += place.step) {
        const std::int64_t first = row * tiles.channels + place.channel;
        float gradient[N], of_forward[N] = {};
        load(dy + first, gradient);
        if constexpr (Activation::keeps) load(kept + first, of_forward);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            gradient[k] = activation.gradient(of_forward[k], shift[k], gradient[k]);
            sums[0][k] += gradient[k];
        }
        if constexpr (Activation::keeps) store(dx + first, gradient);
    }
    write_tile_sums<N>(tiles, sums, parts);
}

struct StoreBias {
    float* dbias;
    __device__ void operator()(std::int64_t channel, double sum) const {
        dbias[channel] = static_cast<float>(sum);
    }
};

template <class T, class Body>
void with_activation(BiasActivation activation, const Body& body) {
    if (activation == BiasActivation::relu) return body(Relu{});
    if (activation == BiasActivation::gelu) return body(GeluOfSum<T>{});
    body(None{});
}

}  // namespace

void bias_forward(BiasActivation activation, const TensorView& x, const TensorView& bias, const TensorView& y,
                  Stream stream) {
    const std::int64_t channels = bias.count(), rows = rows_of(x, channels);
    assert(y.count() == x.count() && y.dtype == x.dtype);
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        const bool wide = whole_vectors<T>(channels, x.data, bias.data, y.data);
        with_lanes<T>(wide, [&]<int N>(Lanes<N>) {
            with_activation<T>(activation, [&]<class Activation>(Activation f) {
                const ChannelTiles tiles = tiles_for_rows(rows, channels, N);
                launch("bias_forward", forward<T, N, Activation>, tiles.geometry(), stream, f,
                       elements<const T>(x), bias.as<float>(), tiles, elements<T>(y));
            });
        });
    });
}

std::int64_t bias_workspace(const TensorView& dy, std::int64_t channels) {
    const std::int64_t rows = rows_of(dy, channels);
    const int width = static_cast<int>(16 / size_of(dy.dtype));
    return std::max(tile_workspace(tiles_for_sums(rows, channels, width), 1),
                    tile_workspace(tiles_for_sums(rows, channels, 1), 1));
}

void bias_backward(BiasActivation activation, const TensorView& kept, const TensorView& bias,
                   const TensorView& dy, const TensorView& dx, const TensorView& dbias,
                   const TensorView& workspace, Stream stream) {
    const std::int64_t channels = dbias.count(), rows = rows_of(dy, channels);
    assert(workspace.count() >= bias_workspace(dy, channels));
    assert(activation == BiasActivation::none || (kept.count() == dy.count() && dx.count() == dy.count() &&
                                                  (!bias.defined() || bias.count() == channels)));
    double* parts = workspace.as<double>();
    with_storage(dy.dtype, [&]<class T>(Storage<T>) {
        const bool wide = whole_vectors<T>(channels, kept.data, bias.data, dy.data, dx.data);
        with_lanes<T>(wide, [&]<int N>(Lanes<N>) {
            with_activation<T>(activation, [&]<class Activation>(Activation f) {
                const ChannelTiles tiles = tiles_for_sums(rows, channels, N);
                launch("bias_backward", backward<T, N, Activation>, tiles.geometry(), stream, f,
                       elements<const T>(kept), bias.defined() ? bias.as<float>() : nullptr,
                       elements<const T>(dy), tiles, elements<T>(dx), parts);
                launch("bias_backward sum", add_parts<double, StoreBias>, add_parts_geometry(channels),
                       stream, parts, rows > 0 ? tiles.shares : 0, channels, StoreBias{dbias.as<float>()});
            });
        });
    });
}

}  // namespace tutti::cuda
