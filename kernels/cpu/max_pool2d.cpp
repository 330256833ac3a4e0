#include <cstring>

#include "../common/pool_window.hpp"
#include "eigen_ops.hpp"
#include "max_pool_lanes.hpp"
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

/// The window of one output place, of the channels from `c` on that fill a vector.
template <class T>
void pool_lanes(const Pool2dShape& s, std::int64_t oh, std::int64_t ow, std::int64_t c, const T* in, T* y,
                unsigned char* winners) {
    using L = MaxPoolLanes<T>;
    typename L::Values best{};
    typename L::Places winner{};
    bool first = true;
    for_each_pixel(s, oh, ow, [&](unsigned char place, std::int64_t pixel) {
        const auto x = L::load(in + pixel + c);
        if (first) {
            best = x;
            winner = typename L::Places{} + place;
        } else {
            L::challenge(x, place, best, winner);
        }
        first = false;
    });
    if (s.relu) L::rectify(best, winner);
    L::store(best, winner, y + c, winners + c);
}

/// The same of one channel.
template <class T>
void pool_channel(const Pool2dShape& s, std::int64_t oh, std::int64_t ow, std::int64_t c, const T* in, T* y,
                  unsigned char* winners) {
    T best{};
    unsigned char winner = 0;
    bool first = true;
    for_each_pixel(s, oh, ow, [&](unsigned char place, std::int64_t pixel) {
        const T x = in[pixel + c];
        if (first || wins(x, best)) {
            best = x;
            winner = place;
        }
        first = false;
    });
    const bool dead = s.relu && best <= T(0);
    y[c] = dead ? T(0) : best;
    winners[c] = dead ? no_winner : winner;
}

/// Gives one output place's gradients to the pixels of its window: every pixel looks whether it was the
/// winner, which is more reads than going from the winner, but whole vectors of channels at a time.
template <bool adds, class T>
void pass_back(const Pool2dShape& s, std::int64_t oh, std::int64_t ow, const T* dout,
               const unsigned char* winners, T* din) {
    using L = MaxPoolLanes<T>;
    std::int64_t c = 0;
    for (; c + L::count <= s.channels; c += L::count) {
        const auto gradient = L::load(dout + c);
        const auto winner = L::load_places(winners + c);
        for_each_pixel(s, oh, ow, [&](unsigned char place, std::int64_t pixel) {
            typename L::Values share = winner == place ? gradient : typename L::Values{};
            if (adds) share += L::load(din + pixel + c);
            std::memcpy(din + pixel + c, &share, sizeof share);
        });
    }
    for (; c < s.channels; ++c)
        for_each_pixel(s, oh, ow, [&](unsigned char place, std::int64_t pixel) {
            const T share = winners[c] == place ? dout[c] : T(0);
            din[pixel + c] = adds ? din[pixel + c] + share : share;
        });
}

/// Whether every pixel belongs to exactly one window.
bool windows_tile(const Pool2dShape& s) {
    return s.kernel_h == s.stride_h && s.kernel_w == s.stride_w && s.padding_h == 0 && s.padding_w == 0 &&
           s.height % s.kernel_h == 0 && s.width % s.kernel_w == 0;
}

}  // namespace

template <class T>
void EigenOps<T>::max_pool2d_forward(const Pool2dShape& shape, const TensorView& x, const TensorView& y,
                                     const TensorView& winner) {
    max_pool2d<T>(shape, x, y, winner);
}

template <class T>
void max_pool2d(const Pool2dShape& shape, const TensorView& x, const TensorView& y,
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
                        std::int64_t c = 0;
                        for (; c + lanes<T> <= channels; c += lanes<T>)
                            pool_lanes(shape, oh, ow, c, in, best, place_of_best);
                        for (; c < channels; ++c) pool_channel(shape, oh, ow, c, in, best, place_of_best);
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
    const bool tiles = windows_tile(shape);
    for_ranges(
        batch,
        [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                T* din = dx.as<T>() + n * in_size;
                const T* dout = dy.as<T>() + n * out_size;
                const unsigned char* place_of_best = winner.as<unsigned char>() + n * out_size;
                if (!tiles) std::fill(din, din + in_size, T(0));
                for (std::int64_t oh = 0; oh < shape.out_height(); ++oh)
                    for (std::int64_t ow = 0; ow < shape.out_width(); ++ow) {
                        if (tiles)
                            pass_back<false>(shape, oh, ow, dout, place_of_best, din);
                        else
                            pass_back<true>(shape, oh, ow, dout, place_of_best, din);
                        dout += channels;
                        place_of_best += channels;
                    }
            }
        },
        in_size);
}

template void max_pool2d<float>(const Pool2dShape&, const TensorView&, const TensorView&, const TensorView&);
template void EigenOps<float>::max_pool2d_forward(const Pool2dShape&, const TensorView&, const TensorView&,
                                                  const TensorView&);
template void EigenOps<double>::max_pool2d_forward(const Pool2dShape&, const TensorView&, const TensorView&,
                                                   const TensorView&);
template void EigenOps<float>::max_pool2d_backward(const Pool2dShape&, const TensorView&, const TensorView&,
                                                   const TensorView&);
template void EigenOps<double>::max_pool2d_backward(const Pool2dShape&, const TensorView&, const TensorView&,
                                                    const TensorView&);

}  // namespace tutti
