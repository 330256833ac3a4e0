#include "winner_gradients.hpp"

#include <algorithm>
#include <cassert>

namespace tutti {
namespace {

using Values = Vector<float>;
constexpr std::int64_t lane_count = lanes<float>;
constexpr std::int64_t side = 3;
constexpr std::size_t taps = 9;
/// Elements of an output channel in a slice of ordered weights.
constexpr std::int64_t of_channel = side * side * image_slice;
constexpr std::int64_t places = 4;

/// Calls visit(tap, vector, offset) for each vector of a window, of so many vectors of channels. All is
/// unrolled: what belongs to a tap stays in a register.
template <std::size_t vectors, class Visit>
[[gnu::always_inline]] inline void for_window(std::int64_t row, std::int64_t pixel, const Visit& visit) {
#pragma GCC unroll 9
    for (std::size_t t = 0; t < taps; ++t)
#pragma GCC unroll 2
        for (std::size_t v = 0; v < vectors; ++v)
            visit(t, v,
                  static_cast<std::int64_t>(t) / side * row + static_cast<std::int64_t>(t) % side * pixel +
                      static_cast<std::int64_t>(v) * lane_count);
}

/// The weights' gradients of one output channel, of a slice of `vectors` vectors of input channels.
template <std::size_t vectors>
void add_channel(const WinnerGradients& p, const float* slice, const Winner* list, std::int32_t count,
                 float* dweight) {
    constexpr auto pixel = static_cast<std::int64_t>(vectors) * lane_count;
    const std::int64_t row = p.row() * pixel;
    Values sums[taps][vectors];
    for_window<vectors>(side * p.in, p.in, [&](std::size_t t, std::size_t v, std::int64_t at) {
        sums[t][v] = load<float>(dweight + at);
    });
    for (const Winner* one = list; one != list + count; ++one) {
        const float gradient = one->gradient;
        const float* const window = slice + one->place * pixel;
        for_window<vectors>(row, pixel, [&](std::size_t t, std::size_t v, std::int64_t at) {
            sums[t][v] += gradient * load<float>(window + at);
        });
    }
    for_window<vectors>(side * p.in, p.in, [&](std::size_t t, std::size_t v, std::int64_t at) {
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

/// The image's gradients of what passed at one place of a window, in a slice.
void add_window(const float* weights, const float* dy, const std::uint16_t* list, std::int32_t count,
                std::int64_t row, float* slice) {
    Values sums[taps] = {};
    for (const std::uint16_t* one = list; one != list + count; ++one) {
        const float gradient = dy[*one];
        const float* const own = weights + *one * of_channel;
        for_window<1>(side * lane_count, lane_count, [&](std::size_t t, std::size_t, std::int64_t at) {
            sums[t] += gradient * load<float>(own + at);
        });
    }
    for_window<1>(row, lane_count, [&](std::size_t t, std::size_t, std::int64_t at) {
        store<float>(load<float>(slice + at) + sums[t], slice + at);
    });
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

void join_image(const WinnerGradients& p, const float* sliced, float* image) {
    for_vectors(p, image_slice, image, sliced,
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

void order_winner_weights(const WinnerGradients& p, const float* weight, float* ordered) {
    for (std::int64_t c = 0; c < p.in; c += image_slice)
        for (std::int64_t tap = 0; tap < p.out * side * side; ++tap, ordered += image_slice)
            store<float>(load<float>(weight + tap * p.in + c), ordered);
}

void list_passed(const WinnerGradients& p, const unsigned char* winner, std::uint16_t* list,
                 std::int32_t* count) {
    assert(p.out <= most_passed);
    // The places' next entries as 16 bits each of one number, which stays in a register: four in memory would
    // wait for each other.
    constexpr unsigned bits = 16;
    const auto out = static_cast<std::uint64_t>(p.out);
    const std::uint64_t begin = out << bits | 2 * out << 2 * bits | 3 * out << 3 * bits;
    for (std::int64_t window = 0; window < p.windows(); ++window) {
        std::uint64_t next = begin;
        for (std::int64_t c = 0; c < p.out; ++c) {
            // Written in any case, and kept if it won there.
            const unsigned shift = (winner[c] & 3U) * bits;
            list[next >> shift & 0xffff] = static_cast<std::uint16_t>(c);
            next += std::uint64_t{winner[c] < places} << shift;
        }
        for (unsigned place = 0; place < places; ++place)
            count[place] = static_cast<std::int32_t>((next - begin) >> place * bits & 0xffff);
        winner += p.out;
        list += places * p.out;
        count += places;
    }
}

void add_winner_image_gradients(const WinnerGradients& p, const float* ordered, const float* dy,
                                const std::uint16_t* list, const std::int32_t* count, float* image_gradient) {
    const std::int64_t row = p.row() * image_slice;
    for (std::int64_t c = 0; c < p.in; c += image_slice) {
        const float* const weights = ordered + c * p.out * side * side;
        float* const slice = image_gradient + c * p.pixels();
        for (std::int64_t window = 0; window < p.windows(); ++window) {
            const std::int64_t pixel =
                window / p.windows_w * p.row_step + window % p.windows_w * p.column_step;
            for (std::int64_t place = 0; place < places; ++place) {
                const std::int64_t part = window * places + place;
                if (count[part] > 0)
                    add_window(weights, dy + window * p.out, list + part * p.out, count[part], row,
                               slice + (pixel + p.places[place]) * image_slice);
            }
        }
    }
}

}  // namespace tutti
