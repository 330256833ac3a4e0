#include "../common/pool_window.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

/// Calls visit(place in the window, offset of the pixel's first channel), row-major.
template <class Visit>
void for_each_pixel(const Pool2dShape& s, std::int64_t oh, std::int64_t ow, const Visit& visit) {
    const auto part = pool_part(s, oh, ow);
    for (std::int64_t kh = part.h_begin; kh < part.h_end; ++kh)
        for (std::int64_t kw = part.w_begin; kw < part.w_end; ++kw)
            visit(static_cast<unsigned char>(kh * s.kernel_w + kw),
                  ((part.top + kh) * s.width + part.left + kw) * s.channels);
}

void assert_shape([[maybe_unused]] const Pool2dShape& s) {
    assert(s.kernel_h * s.kernel_w <= 255);
    assert(s.padding_h < s.kernel_h && s.padding_w < s.kernel_w);
    assert(s.out_height() > 0 && s.out_width() > 0);
}

/// Lets the channels of `x` that beat the best so far take its place.
template <class T>
void challenge(const T* __restrict x, unsigned char place, std::int64_t channels, T* __restrict best,
               unsigned char* __restrict winner) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
        const bool better = wins(x[c], best[c]);
        best[c] = better ? x[c] : best[c];
        winner[c] = better ? place : winner[c];
    }
}

}  // namespace

template <class T>
void EigenOps<T>::max_pool2d_forward(const Pool2dShape& shape, const TensorView& x, const TensorView& y,
                                     const TensorView& winner) {
    assert_shape(shape);
    const std::int64_t batch = x.shape[0], channels = shape.channels;
    const std::int64_t in_size = shape.height * shape.width * channels;
    const std::int64_t out_size = shape.out_height() * shape.out_width() * channels;
    assert(x.count() == batch * in_size && y.count() == batch * out_size && winner.count() == y.count());
    for_ranges(
        batch,
        [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                const T* in = x.as<T>() + n * in_size;
                T* best = y.as<T>() + n * out_size;
                unsigned char* place_of_best = winner.as<unsigned char>() + n * out_size;
                for (std::int64_t oh = 0; oh < shape.out_height(); ++oh)
                    for (std::int64_t ow = 0; ow < shape.out_width(); ++ow) {
                        bool first = true;
                        for_each_pixel(shape, oh, ow, [&](unsigned char place, std::int64_t pixel) {
                            if (first) {
                                std::copy(in + pixel, in + pixel + channels, best);
                                std::fill(place_of_best, place_of_best + channels, place);
                            } else {
                                challenge(in + pixel, place, channels, best, place_of_best);
                            }
                            first = false;
                        });
                        best += channels;
                        place_of_best += channels;
                    }
            }
        },
        in_size);
}

template <class T>
void EigenOps<T>::max_pool2d_backward(const Pool2dShape& shape, const TensorView& dy,
                                      const TensorView& winner, const TensorView& dx) {
    assert_shape(shape);
    const std::int64_t batch = dx.shape[0], channels = shape.channels;
    const std::int64_t in_size = shape.height * shape.width * channels;
    const std::int64_t out_size = shape.out_height() * shape.out_width() * channels;
    assert(dx.count() == batch * in_size && dy.count() == batch * out_size && winner.count() == dy.count());
    for_ranges(
        batch,
        [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                T* din = dx.as<T>() + n * in_size;
                const T* dout = dy.as<T>() + n * out_size;
                const unsigned char* place_of_best = winner.as<unsigned char>() + n * out_size;
                std::fill(din, din + in_size, T(0));
                for (std::int64_t oh = 0; oh < shape.out_height(); ++oh)
                    for (std::int64_t ow = 0; ow < shape.out_width(); ++ow) {
                        for_each_pixel(shape, oh, ow, [&](unsigned char place, std::int64_t pixel) {
                            T* __restrict to = din + pixel;
                        // Every pixel of the window looks whether it was the winner: more reads than going
                        // from the winner, but whole vectors of channels at a time.
#pragma omp simd
                            for (std::int64_t c = 0; c < channels; ++c)
                                to[c] += place_of_best[c] == place ? dout[c] : T(0);
                        });
                        dout += channels;
                        place_of_best += channels;
                    }
            }
        },
        in_size);
}

template void EigenOps<float>::max_pool2d_forward(const Pool2dShape&, const TensorView&, const TensorView&,
                                                  const TensorView&);
template void EigenOps<double>::max_pool2d_forward(const Pool2dShape&, const TensorView&, const TensorView&,
                                                   const TensorView&);
template void EigenOps<float>::max_pool2d_backward(const Pool2dShape&, const TensorView&, const TensorView&,
                                                   const TensorView&);
template void EigenOps<double>::max_pool2d_backward(const Pool2dShape&, const TensorView&, const TensorView&,
                                                    const TensorView&);

}  // namespace tutti
