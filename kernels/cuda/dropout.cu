#include "dropout.hpp"

#include <cmath>

#include "pixels.hpp"
#include "storage.hpp"
#include "tutti/base/random.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

/// What a kernel needs of DropoutPlace and the probability.
struct Draw {
    std::int64_t seed;
    std::uint64_t layer;
    std::uint64_t threshold;  ///< a word below it drops
    float scale;
    const std::int64_t *epoch, *positions;
    __device__ RandomStream stream(RandomPlace place, std::int64_t sample) const {
        return {seed, place, static_cast<std::uint64_t>(*epoch),
                static_cast<std::uint64_t>(positions[sample])};
    }
    /// keep, 0 or 1, of the elements 4·block to 4·block + 3
    __device__ Vector<unsigned char, 4> keep(std::int64_t sample, std::int64_t block) const {
        const auto words =
            stream(RandomPlace::dropout, sample).bits(layer << 32 | static_cast<std::uint64_t>(block));
        Vector<unsigned char, 4> result;
#pragma unroll
        for (int i = 0; i < 4; ++i) result.at[i] = words[i] >= threshold ? 1 : 0;
        return result;
    }
};

/// A product, as in PyTorch: what is not finite stays so where it is dropped, too.
__device__ inline float kept(float x, unsigned char keep, float scale) {
    return x * (keep != 0 ? scale : 0.0f);
}

/// Samples whose memory is in the order of the numbers: a thread has the elements of a block, N (1 or 4) at a
/// time.
template <class T, int N>
__global__ void __launch_bounds__(256) forward_in_order(Draw draw, unsigned items, std::int64_t size,
                                                        const T* x, T* y, unsigned char* RESTRICT keep) {
    const auto blocks = static_cast<unsigned>((size + 3) / 4);
    for_items(items, [&](unsigned item) {
        const std::int64_t sample = item / blocks, block = item % blocks;
        const auto bits = draw.keep(sample, block);
        const std::int64_t begin = sample * size + 4 * block, rest = size - 4 * block;
#pragma unroll
        for (int i = 0; i < 4; i += N) {
            if (i >= rest) continue;
            float value[N];
            Vector<unsigned char, N> flags;
            load(x + begin + i, value);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                flags.at[k] = bits.at[i + k];
                value[k] = kept(value[k], flags.at[k], draw.scale);
            }
            store(y + begin + i, value);
            *reinterpret_cast<Vector<unsigned char, N>*>(keep + begin + i) = flags;
        }
    });
}

/// Blocks of numbers that meet one channel.
HOST_DEVICE unsigned blocks_per_channel(std::int64_t pixels) {
    return static_cast<unsigned>(pixels % 4 == 0 ? pixels / 4 : pixels / 4 + 2);
}

/// Samples of `pixels` with several channels, numbered channel by channel: a block of numbers is four pixels
/// of one channel. A thread has one block of each of N channels; N > 1 needs a number of pixels that four
/// divides. Otherwise a block may hold the end of one channel and the begin of the next, and two threads draw
/// it.
template <class T, int N>
__global__ void __launch_bounds__(256)
    forward_by_channel(Draw draw, unsigned items, std::int64_t pixels, std::int64_t channels, const T* x,
                       T* y, unsigned char* RESTRICT keep) {
    const auto groups = static_cast<unsigned>(channels / N), blocks = blocks_per_channel(pixels);
    for_items(items, [&](unsigned item) {
        const std::int64_t channel = item % groups * N, sample = item / groups / blocks;
        const std::int64_t block = channel * pixels / 4 + item / groups % blocks;
        const std::int64_t pixel = 4 * block - channel * pixels;  // of the block's first number
        Vector<unsigned char, 4> bits[N];
#pragma unroll
        for (int k = 0; k < N; ++k) bits[k] = draw.keep(sample, block + k * (pixels / 4));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (pixel + i < 0 || pixel + i >= pixels) continue;
            const std::int64_t place = (sample * pixels + pixel + i) * channels + channel;
            float value[N];
            Vector<unsigned char, N> flags;
            load(x + place, value);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                flags.at[k] = bits[k].at[i];
                value[k] = kept(value[k], flags.at[k], draw.scale);
            }
            store(y + place, value);
            *reinterpret_cast<Vector<unsigned char, N>*>(keep + place) = flags;
        }
    });
}

template <class T, int N>
__global__ void __launch_bounds__(256)
    backward(float scale, const T* dy, const unsigned char* RESTRICT keep, T* dx, std::int64_t count) {
    for_elements<N>(count, [&]<int M>(std::int64_t i, Lanes<M>) {
        float gradient[M];
        load(dy + i, gradient);
        const auto flags = *reinterpret_cast<const Vector<unsigned char, M>*>(keep + i);
#pragma unroll
        for (int k = 0; k < M; ++k) gradient[k] = kept(gradient[k], flags.at[k], scale);
        store(dx + i, gradient);
    });
}

/// Blocks of threads share a sample; each thread draws the sample's number for itself.
template <class T, int N>
__global__ void __launch_bounds__(256)
    drop_samples(Draw draw, double probability, std::int64_t size, const T* x, T* y) {
    const std::int64_t sample = block_index();
    const bool dropped = draw.stream(RandomPlace::drop_path, sample).uniform(draw.layer) < probability;
    const float factor = dropped ? 0.0f : draw.scale;
    const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * block_threads() * N;
    for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.y) * block_threads() + thread_index()) * N;
         i < size; i += step) {
        float value[N];
        load(x + sample * size + i, value);
#pragma unroll
        for (int k = 0; k < N; ++k) value[k] *= factor;
        store(y + sample * size + i, value);
    }
}

Draw draw_of(const DropoutPlace& place, double probability) {
    assert(place.layer < 1u << 16 && place.epoch.count() == 1);
    return {place.seed,
            place.layer,
            static_cast<std::uint64_t>(std::llround(probability * 0x1p32)),
            probability < 1 ? static_cast<float>(1 / (1 - probability)) : 0.0f,
            place.epoch.as<std::int64_t>(),
            place.positions.as<std::int64_t>()};
}

}  // namespace

void dropout_forward(const DropoutPlace& place, double probability, const TensorView& x, const TensorView& y,
                     const TensorView& keep, Stream stream) {
    const std::int64_t samples = x.shape[0];
    assert(y.count() == x.count() && y.dtype == x.dtype);
    assert(keep.count() == x.count() && keep.dtype == DType::u8 && place.positions.count() == samples);
    if (x.count() == 0) return;
    const std::int64_t size = x.count() / samples, channels = x.shape[x.shape.rank() - 1];
    const std::int64_t pixels = size / channels;
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        const bool in_order = pixels == 1 || channels == 1;
        const bool wide = in_order ? size % 4 == 0 : pixels % 4 == 0 && channels % vector_size<T> == 0;
        with_lanes<T>(wide && aligned(x.data, y.data, keep.data), [&]<int N>(Lanes<N>) {
            const std::int64_t per_sample =
                in_order ? divided_up(size, 4) : blocks_per_channel(pixels) * (channels / N);
            for_samples(samples, per_sample, [&](std::int64_t first, std::int64_t, unsigned items) {
                Draw draw = draw_of(place, probability);
                draw.positions += first;
                const T* in = elements<const T>(x) + first * size;
                T* out = elements<T>(y) + first * size;
                unsigned char* flags = keep.as<unsigned char>() + first * size;
                if (in_order)
                    launch("dropout_forward", forward_in_order<T, std::min(N, 4)>, elementwise(items), stream,
                           draw, items, size, in, out, flags);
                else
                    launch("dropout_forward", forward_by_channel<T, N>, elementwise(items), stream, draw,
                           items, pixels, channels, in, out, flags);
            });
        });
    });
}

void dropout_backward(double probability, const TensorView& dy, const TensorView& keep, const TensorView& dx,
                      Stream stream) {
    assert(dx.count() == dy.count() && dx.dtype == dy.dtype);
    assert(keep.count() == dy.count() && keep.dtype == DType::u8);
    const float scale = probability < 1 ? static_cast<float>(1 / (1 - probability)) : 0.0f;
    with_storage(dy.dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(aligned(dy.data, dx.data, keep.data), [&]<int N>(Lanes<N>) {
            launch("dropout_backward", backward<T, N>, elementwise(divided_up(dy.count(), N)), stream, scale,
                   elements<const T>(dy), keep.as<unsigned char>(), elements<T>(dx), dy.count());
        });
    });
}

void drop_path(const DropoutPlace& place, double probability, const TensorView& x, const TensorView& y,
               Stream stream) {
    const std::int64_t samples = x.shape[0];
    assert(probability < 1 && y.count() == x.count() && y.dtype == x.dtype);
    assert(place.positions.count() == samples);
    if (x.count() == 0) return;
    const std::int64_t size = x.count() / samples;
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(whole_vectors<T>(size, x.data, y.data), [&]<int N>(Lanes<N>) {
            // Four vectors per thread, which pay for drawing the number.
            const std::int64_t parts = std::min<std::int64_t>(divided_up(size, 4 * 256 * N), 65535);
            const Geometry geometry{{static_cast<unsigned>(samples), static_cast<unsigned>(parts)}, {256}};
            launch("drop_path", drop_samples<T, N>, geometry, stream, draw_of(place, probability),
                   probability, size, elements<const T>(x), elements<T>(y));
        });
    });
}

}  // namespace tutti::cuda
