#include "normalize.hpp"

#include "../common/pixel.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

/// Up to so many channels the results for all 256 values fit in a block's shared memory; more are rare, and
/// divide for each element.
constexpr int most_channels = 32;
constexpr int width = 8;  // elements per thread and round

/// A block makes the two divisions once per value and channel, table[channel][value]; each of its elements
/// looks its result up.
template <class T>
__global__ void __launch_bounds__(256)
    look_up(const unsigned char* RESTRICT x, const float* RESTRICT mean, const float* RESTRICT std,
            int channels, T* RESTRICT y, std::int64_t count) {
    float* table = dynamic_shared<float>();
    for (int i = thread_index(); i < 256 * channels; i += block_threads())
        table[i] = normalized_pixel(static_cast<float>(i % 256), mean[i / 256], std[i / 256]);
    __syncthreads();
    for_elements<width>(count, [&]<int M>(std::int64_t first, Lanes<M>) {
        const auto pixels = *reinterpret_cast<const Vector<unsigned char, M>*>(x + first);
        int channel = static_cast<int>(first % channels);
        float value[M];
#pragma unroll
        for (int k = 0; k < M; ++k) {
            value[k] = table[256 * channel + pixels.at[k]];
            channel = channel + 1 == channels ? 0 : channel + 1;
        }
        store(y + first, value);
    });
}

template <class T>
__global__ void __launch_bounds__(256)
    divide(const unsigned char* RESTRICT x, const float* RESTRICT mean, const float* RESTRICT std,
           std::int64_t channels, T* RESTRICT y, std::int64_t count) {
    for_elements<1>(count, [&](std::int64_t i, Lanes<1>) {
        const std::int64_t channel = i % channels;
        const float value[1] = {normalized_pixel(static_cast<float>(x[i]), mean[channel], std[channel])};
        store(y + i, value);
    });
}

template <class T>
__global__ void __launch_bounds__(256)
    standardize(const float* RESTRICT x, const float* RESTRICT mean, const float* RESTRICT std,
                std::int64_t channels, T* RESTRICT y, std::int64_t count) {
    for_elements<1>(count, [&](std::int64_t i, Lanes<1>) {
        const std::int64_t channel = i % channels;
        const float value[1] = {normalized_feature(x[i], mean[channel], std[channel])};
        store(y + i, value);
    });
}

}  // namespace

void normalize(const TensorView& x, const TensorView& mean, const TensorView& std, const TensorView& y,
               Stream stream) {
    const std::int64_t channels = mean.count(), count = x.count();
    assert(std.count() == channels && x.shape[x.shape.rank() - 1] == channels && y.count() == count);
    if (x.dtype == DType::f32) {
        with_storage(y.dtype, [&]<class T>(Storage<T>) {
            launch("normalize", standardize<T>, elementwise(count), stream, x.as<float>(), mean.as<float>(),
                   std.as<float>(), channels, elements<T>(y), count);
        });
        return;
    }
    const unsigned char* pixels = x.as<unsigned char>();
    with_storage(y.dtype, [&]<class T>(Storage<T>) {
        if (channels > most_channels || !aligned(pixels, y.data)) {
            launch("normalize", divide<T>, elementwise(count), stream, pixels, mean.as<float>(),
                   std.as<float>(), channels, elements<T>(y), count);
            return;
        }
        Geometry geometry = elementwise(divided_up(count, width));
        geometry.dynamic_shared = static_cast<std::size_t>(256 * channels) * sizeof(float);
        launch("normalize", look_up<T>, geometry, stream, pixels, mean.as<float>(), std.as<float>(),
               static_cast<int>(channels), elements<T>(y), count);
    });
}

}  // namespace tutti::cuda
