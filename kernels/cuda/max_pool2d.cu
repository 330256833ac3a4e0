#include "max_pool2d.hpp"

#include "../common/pool_window.hpp"
#include "pixels.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

/// The winner where ReLU lets nothing pass: a place that no window has.
constexpr unsigned char nothing = 255;

/// Pool2dShape with its results, and as many items as the kernel's output has vectors.
struct Plan {
    int height, width, channels, kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w;
    int out_height, out_width;
    unsigned items;
};

Plan plan(const Pool2dShape& s, unsigned items) {
    assert(s.kernel_h * s.kernel_w <= 255);
    assert(s.padding_h < s.kernel_h && s.padding_w < s.kernel_w);
    const auto narrow = [](std::int64_t size) { return static_cast<int>(size); };
    return {narrow(s.height),    narrow(s.width),        narrow(s.channels),    narrow(s.kernel_h),
            narrow(s.kernel_w),  narrow(s.stride_h),     narrow(s.stride_w),    narrow(s.padding_h),
            narrow(s.padding_w), narrow(s.out_height()), narrow(s.out_width()), items};
}

template <class T, int N, bool relu>
__global__ void __launch_bounds__(256, 1)
    forward(Plan s, const T* RESTRICT x, T* RESTRICT y, unsigned char* RESTRICT winner) {
    for_items(s.items, [&](unsigned item) {
        const Pixel out = pixel_of(item, s.out_height, s.out_width, s.channels / N, N);
        const PoolPart<int> part = pool_part(s, out.h, out.w);
        const T* image = x + out.n * s.height * s.width * s.channels + out.channel;
        // What equals the first element loses to it.
        float best[N];
        Vector<unsigned char, N> place;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            best[i] = -INFINITY;
            place.at[i] = static_cast<unsigned char>(part.h_begin * s.kernel_w + part.w_begin);
        }
        // One element at a time: with all of a window's on their way before the first was looked at, this
        // took 607 µs in place of 255 (an H200, bf16, 3 × 3 over 802816 × 64 windows, 2026-11-27).
        for (int kh = part.h_begin; kh < part.h_end; ++kh)
            for (int kw = part.w_begin; kw < part.w_end; ++kw) {
                const int pixel = (part.top + kh) * s.width + part.left + kw;
                float candidate[N];
                load(image + static_cast<std::int64_t>(pixel) * s.channels, candidate);
#pragma unroll
                for (int i = 0; i < N; ++i)
                    if (wins(candidate[i], best[i])) {
                        best[i] = candidate[i];
                        place.at[i] = static_cast<unsigned char>(kh * s.kernel_w + kw);
                    }
            }
        if constexpr (relu) {
#pragma unroll
            for (int i = 0; i < N; ++i)
                if (best[i] <= 0) {
                    best[i] = 0;
                    place.at[i] = nothing;
                }
        }
        store(y + std::int64_t{item} * N, best);
        *reinterpret_cast<Vector<unsigned char, N>*>(winner + std::int64_t{item} * N) = place;
    });
}

/// The first of the windows that hold a place, when the last is place / stride.
__device__ inline int first_window(int place, int kernel, int stride) {
    return place < kernel ? 0 : (place - kernel) / stride + 1;
}

template <class T, int N>
__global__ void __launch_bounds__(256, 1)
    backward(Plan s, const T* RESTRICT dy, const unsigned char* RESTRICT winner, T* RESTRICT dx) {
    for_items(s.items, [&](unsigned item) {
        const Pixel in = pixel_of(item, s.height, s.width, s.channels / N, N);
        const int h = in.h + s.padding_h, w = in.w + s.padding_w;  // as the windows count
        float sum[N] = {};
        for (int oh = first_window(h, s.kernel_h, s.stride_h); oh < s.out_height && oh * s.stride_h <= h;
             ++oh)
            for (int ow = first_window(w, s.kernel_w, s.stride_w); ow < s.out_width && ow * s.stride_w <= w;
                 ++ow) {
                const std::int64_t out =
                    ((in.n * s.out_height + oh) * s.out_width + ow) * s.channels + in.channel;
                const auto here =
                    static_cast<unsigned char>((h - oh * s.stride_h) * s.kernel_w + w - ow * s.stride_w);
                const auto place = *reinterpret_cast<const Vector<unsigned char, N>*>(winner + out);
                float gradient[N];
                load(dy + out, gradient);
#pragma unroll
                for (int i = 0; i < N; ++i) sum[i] += place.at[i] == here ? gradient[i] : 0.0f;
            }
        store(dx + std::int64_t{item} * N, sum);
    });
}

/// ResNet's windows: 3 × 3 with stride 2.
constexpr int three = 3;
bool three_by_two(const Pool2dShape& s) {
    return s.kernel_h == three && s.kernel_w == three && s.stride_h == 2 && s.stride_w == 2;
}

/// For these windows 2 × 2 pixels from an even place on, as the windows count, lie in the same 2 × 2 windows:
/// a thread has such pixels, and reads each window once.
struct Tiles {
    int first, count;  ///< along one side
};
HOST_DEVICE inline Tiles tiles(int size, int padding) {
    return {padding / 2, (size + padding - 1) / 2 - padding / 2 + 1};
}

template <class T, int N>
__global__ void __launch_bounds__(256, 1)
    backward_tiles(Plan s, const T* RESTRICT dy, const unsigned char* RESTRICT winner, T* RESTRICT dx) {
    const Tiles down = tiles(s.height, s.padding_h), across = tiles(s.width, s.padding_w);
    for_items(s.items, [&](unsigned item) {
        const Pixel tile = pixel_of(item, down.count, across.count, s.channels / N, N);
        const int last_oh = tile.h + down.first, last_ow = tile.w + across.first;
        Vector<T, N> gradient[4];
        Vector<unsigned char, N> place[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int oh = last_oh - 1 + k / 2, ow = last_ow - 1 + k % 2;
            if (oh >= 0 && oh < s.out_height && ow >= 0 && ow < s.out_width) {
                const std::int64_t out =
                    ((tile.n * s.out_height + oh) * s.out_width + ow) * s.channels + tile.channel;
                gradient[k] = *reinterpret_cast<const Vector<T, N>*>(dy + out);
                place[k] = *reinterpret_cast<const Vector<unsigned char, N>*>(winner + out);
            } else {
                gradient[k] = {};
#pragma unroll
                for (int i = 0; i < N; ++i) place[k].at[i] = nothing;
            }
        }
#pragma unroll
        for (int pixel = 0; pixel < 4; ++pixel) {
            const int h = 2 * last_oh + pixel / 2 - s.padding_h, w = 2 * last_ow + pixel % 2 - s.padding_w;
            if (h < 0 || h >= s.height || w < 0 || w >= s.width) continue;
            float sum[N] = {};
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int kh = 2 - k / 2 * 2 + pixel / 2, kw = 2 - k % 2 * 2 + pixel % 2;
                if (kh >= three || kw >= three) continue;
#pragma unroll
                for (int i = 0; i < N; ++i)
                    if (place[k].at[i] == kh * three + kw) sum[i] += to_float(gradient[k].at[i]);
            }
            store(dx + ((tile.n * s.height + h) * s.width + w) * s.channels + tile.channel, sum);
        }
    });
}

}  // namespace

void max_pool2d_forward(const Pool2dShape& shape, const TensorView& x, const TensorView& y,
                        const TensorView& winner, Stream stream) {
    assert(x.dtype == y.dtype && winner.dtype == DType::u8 && winner.count() == y.count());
    assert(y.count() == x.shape[0] * shape.out_height() * shape.out_width() * shape.channels);
    const std::int64_t in_size = shape.height * shape.width * shape.channels;
    const std::int64_t out_size = shape.out_height() * shape.out_width() * shape.channels;
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        const bool wide = whole_vectors<T>(shape.channels, x.data, y.data, winner.data);
        with_lanes<T>(wide, [&]<int N>(Lanes<N>) {
            for_samples(x.shape[0], out_size / N, [&](std::int64_t first, std::int64_t, unsigned items) {
                auto* kernel = shape.relu ? forward<T, N, true> : forward<T, N, false>;
                launch("max_pool2d_forward", kernel, elementwise(items), stream, plan(shape, items),
                       elements<const T>(x) + first * in_size, elements<T>(y) + first * out_size,
                       winner.as<unsigned char>() + first * out_size);
            });
        });
    });
}

void max_pool2d_backward(const Pool2dShape& shape, const TensorView& dy, const TensorView& winner,
                         const TensorView& dx, Stream stream) {
    assert(dx.dtype == dy.dtype && winner.dtype == DType::u8 && winner.count() == dy.count());
    assert(dy.count() == dx.shape[0] * shape.out_height() * shape.out_width() * shape.channels);
    const std::int64_t in_size = shape.height * shape.width * shape.channels;
    const std::int64_t out_size = shape.out_height() * shape.out_width() * shape.channels;
    with_storage(dx.dtype, [&]<class T>(Storage<T>) {
        const bool wide = whole_vectors<T>(shape.channels, dx.data, dy.data, winner.data);
        with_lanes<T>(wide, [&]<int N>(Lanes<N>) {
            const bool in_tiles = three_by_two(shape);
            const auto count = [](std::int64_t size, std::int64_t padding) {
                return tiles(static_cast<int>(size), static_cast<int>(padding)).count;
            };
            const std::int64_t items_each = in_tiles ? std::int64_t{count(shape.height, shape.padding_h)} *
                                                           count(shape.width, shape.padding_w) *
                                                           (shape.channels / N)
                                                     : in_size / N;
            for_samples(dx.shape[0], items_each, [&](std::int64_t first, std::int64_t, unsigned items) {
                launch("max_pool2d_backward", in_tiles ? backward_tiles<T, N> : backward<T, N>,
                       elementwise(items), stream, plan(shape, items),
                       elements<const T>(dy) + first * out_size,
                       winner.as<unsigned char>() + first * out_size, elements<T>(dx) + first * in_size);
            });
        });
    });
}

}  // namespace tutti::cuda
