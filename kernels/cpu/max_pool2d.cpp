#include <algorithm>
#include <cstring>
#include <type_traits>

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
template <class S>
void pool_lanes(const Pool2dShape& s, std::int64_t oh, std::int64_t ow, std::int64_t c, const S* in, S* y,
                unsigned char* winners) {
    using L = MaxPoolLanes<S>;
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
template <class T, class S>
void pool_channel(const Pool2dShape& s, std::int64_t oh, std::int64_t ow, std::int64_t c, const S* in, S* y,
                  unsigned char* winners) {
    T best{};
    unsigned char winner = 0;
    bool first = true;
    for_each_pixel(s, oh, ow, [&](unsigned char place, std::int64_t pixel) {
        const auto x = number_of<T>(in[pixel + c]);
        if (first || wins(x, best)) {
            best = x;
            winner = place;
        }
        first = false;
    });
    const bool dead = s.relu && best <= T(0);
    y[c] = stored_as<S>(dead ? T(0) : best);
    winners[c] = dead ? no_winner : winner;
}

template <class T, class S>
void pool_image(const Pool2dShape& s, const S* in, S* y, unsigned char* winners) {
    constexpr std::int64_t at_once = MaxPoolLanes<S>::count;
    for (std::int64_t oh = 0; oh < s.out_height(); ++oh)
        for (std::int64_t ow = 0; ow < s.out_width(); ++ow, y += s.channels, winners += s.channels) {
            std::int64_t c = 0;
            for (; c + at_once <= s.channels; c += at_once) pool_lanes(s, oh, ow, c, in, y, winners);
            for (; c < s.channels; ++c) pool_channel<T>(s, oh, ow, c, in, y, winners);
        }
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

/// An image's gradient pixel by pixel, each the sum of those of its windows that it has won: rounded once.
void gather_back(const Pool2dShape& s, const Bf16Value* dout, const unsigned char* winners, Bf16Value* din) {
    using L = MaxPoolLanes<Bf16Value>;
    // Windows whose row (column) begins `stride` after that of the one before and which hold row (column)
    // `at`.
    const auto first = [](std::int64_t at, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
        return std::max<std::int64_t>((at + padding - kernel) / stride + (at + padding >= kernel), 0);
    };
    const auto end = [](std::int64_t at, std::int64_t stride, std::int64_t padding, std::int64_t windows) {
        return std::min((at + padding) / stride + 1, windows);
    };
    for (std::int64_t h = 0; h < s.height; ++h)
        for (std::int64_t w = 0; w < s.width; ++w, din += s.channels) {
            const std::int64_t end_oh = end(h, s.stride_h, s.padding_h, s.out_height());
            const std::int64_t end_ow = end(w, s.stride_w, s.padding_w, s.out_width());
            const auto for_each_window = [&](const auto& visit) {
                for (std::int64_t oh = first(h, s.kernel_h, s.stride_h, s.padding_h); oh < end_oh; ++oh)
                    for (std::int64_t ow = first(w, s.kernel_w, s.stride_w, s.padding_w); ow < end_ow; ++ow) {
                        const std::int64_t kh = h + s.padding_h - oh * s.stride_h,
                                           kw = w + s.padding_w - ow * s.stride_w;
                        visit(static_cast<unsigned char>(kh * s.kernel_w + kw),
                              (oh * s.out_width() + ow) * s.channels);
                    }
            };
            std::int64_t c = 0;
            for (; c + L::count <= s.channels; c += L::count) {
                L::Values sum{};
                for_each_window([&](unsigned char place, std::int64_t window) {
                    const auto gradient = L::load(dout + window + c);
                    sum += L::load_places(winners + window + c) == place ? gradient : L::Values{};
                });
                L::store(sum, din + c);
            }
            for (; c < s.channels; ++c) {
                float sum = 0;
                for_each_window([&](unsigned char place, std::int64_t window) {
                    if (winners[window + c] == place) sum += number_of<float>(dout[window + c]);
                });
                din[c] = stored_as<Bf16Value>(sum);
            }
        }
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
    const std::int64_t batch = x.shape[0];
    const std::int64_t in_size = shape.height * shape.width * shape.channels;
    const std::int64_t out_size = shape.out_height() * shape.out_width() * shape.channels;
    assert(x.count() == batch * in_size && y.count() == batch * out_size && winner.count() == y.count());
    for_ranges(
        batch,
        [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t n = begin; n < end; ++n) {
                unsigned char* const winners = winner.as<unsigned char>() + n * out_size;
                as_stored<T>(x, [&]<class S>() {
                    pool_image<T>(shape, x.as<S>() + n * in_size, y.as<S>() + n * out_size, winners);
                });
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
    if constexpr (std::is_same_v<T, float>)
        if (dx.dtype == DType::bf16)
            return for_ranges(
                batch,
                [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t n = begin; n < end; ++n)
                        gather_back(shape, dy.as<Bf16Value>() + n * out_size,
                                    winner.as<unsigned char>() + n * out_size,
                                    dx.as<Bf16Value>() + n * in_size);
                },
                in_size);
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
