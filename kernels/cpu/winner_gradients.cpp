#include "winner_gradients.hpp"

#include <algorithm>
#include <cassert>

#include "winner_window.hpp"

namespace tutti {
namespace {

using Values = Vector<float>;
constexpr std::int64_t lane_count = lanes<float>;
constexpr std::int64_t side = winner_window_side;
constexpr std::size_t taps = winner_window_taps;
constexpr std::int64_t places = 4;

/// The weights' gradients of one output channel, of a slice of `vectors` vectors of input channels.
template <std::size_t vectors>
void add_channel(const WinnerGradients& p, const float* slice, const Winner* list, std::int32_t count,
                 float* dweight) {
    constexpr auto pixel = static_cast<std::int64_t>(vectors) * lane_count;
    const std::int64_t row = p.row() * pixel;
    Values sums[taps][vectors];
    for_winner_window<vectors>(side * p.in, p.in, [&](std::size_t t, std::size_t v, std::int64_t at) {
        sums[t][v] = load<float>(dweight + at);
    });
    for (const Winner* one = list; one != list + count; ++one) {
        const float gradient = one->gradient;
        const float* const window = slice + one->place * pixel;
        for_winner_window<vectors>(row, pixel, [&](std::size_t t, std::size_t v, std::int64_t at) {
            sums[t][v] += gradient * load<float>(window + at);
        });
    }
    for_winner_window<vectors>(side * p.in, p.in, [&](std::size_t t, std::size_t v, std::int64_t at) {
        store<float>(sums[t][v], dweight + at);
    });
}

/// Of all output channels; the slice begins at input channel c.
template <std::size_t vectors>
void add_slice(const WinnerGradients& p, const float* image, std::int64_t c, const Winner* list,
               const std::int32_t* count, float* dweight) {
    for (std::int64_t o = 0; o < p.out; ++o)
        add_channel<vectors>(p, image + c * p.pixels(), list + o * p.windows(), count[o],
                             dweight + o * side * side * p.in + c);
}

/// Calls copy(vector of the image, vector of its slice) for all of them.
template <class Plain, class Sliced, class Copy>
void for_vectors(const WinnerGradients& p, std::int64_t wide, Plain* image, Sliced* sliced,
                 const Copy& copy) {
    for (std::int64_t c = 0; c < p.in;) {
        const std::int64_t slice = p.in - c < wide ? lane_count : wide;
        for (std::int64_t h = 0; h < p.height; ++h) {
            Plain* plain = image + h * p.width * p.in + c;
            Sliced* to = sliced + c * p.pixels() + ((h + p.padding_h) * p.row() + p.padding_w) * slice;
            for (std::int64_t w = 0; w < p.width; ++w, plain += p.in, to += slice)
                for (std::int64_t v = 0; v < slice; v += lane_count) copy(plain + v, to + v);
        }
        c += slice;
    }
}

}  // namespace

void slice_image(const WinnerGradients& p, const float* image, float* sliced) {
    assert(p.in % lane_count == 0);
    std::fill_n(sliced, p.in * p.pixels(), 0.0F);
    for_vectors(p, weight_slice, image, sliced,
                [](const float* plain, float* to) { store<float>(load<float>(plain), to); });
}

void join_image(const WinnerGradients& p, std::int64_t wide, const float* sliced, float* image) {
    for_vectors(p, wide, image, sliced,
                [](float* plain, const float* from) { store<float>(load<float>(from), plain); });
}

void list_winners(const WinnerGradients& p, const float* dy, const unsigned char* winner, Winner* list,
                  std::int32_t* count) {
    const std::int64_t windows = p.windows();
    std::fill_n(count, p.out, 0);
    for (std::int64_t oh = 0; oh < p.windows_h; ++oh)
        for (std::int64_t ow = 0; ow < p.windows_w; ++ow) {
            const std::int64_t window = oh * p.row_step + ow * p.column_step;
            for (std::int64_t c = 0; c < p.out; ++c) {
                // Written in any case, and kept if it won: no branch that nobody could foresee.
                list[c * windows + count[c]] = {static_cast<std::int32_t>(window + p.places[winner[c] & 3]),
                                                dy[c]};
                count[c] += winner[c] < places;
            }
            dy += p.out;
            winner += p.out;
        }
}

void add_winner_gradients(const WinnerGradients& p, const float* image, const Winner* list,
                          const std::int32_t* count, float* dweight, float* dbias) {
    std::int64_t c = 0;
    for (; c + weight_slice <= p.in; c += weight_slice)
        add_slice<weight_slice / lane_count>(p, image, c, list, count, dweight);
    for (; c < p.in; c += lane_count) add_slice<1>(p, image, c, list, count, dweight);
    if (!dbias) return;
    for (std::int64_t o = 0; o < p.out; ++o) {
        float sum = dbias[o];
        for (std::int32_t i = 0; i < count[o]; ++i) sum += list[o * p.windows() + i].gradient;
        dbias[o] = sum;
    }
}

}  // namespace tutti
