#include "winner_gradients.hpp"

#include <algorithm>
#include <cassert>

#include "tile_vector.hpp"

namespace tutti {
namespace {

using Values = Vector<float>;
constexpr std::int64_t lane_count = lanes<float>;
constexpr std::int64_t side = 3;
constexpr std::size_t taps = 9;

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

/// The weights' gradients of one output channel, in `vectors` vectors of input channels.
template <std::size_t vectors>
void add_channel(const WinnerGradients& p, const float* image, const Winner* list, std::int32_t count,
                 float* dweight) {
    Values sums[taps][vectors];
    for_window<vectors>(side * p.in, p.in, [&](std::size_t t, std::size_t v, std::int64_t at) {
        sums[t][v] = load<float>(dweight + at);
    });
    for (const Winner* one = list; one != list + count; ++one) {
        const Values gradient = Values{} + one->gradient;
        const float* const window = image + one->place;
        for_window<vectors>(p.row, p.in, [&](std::size_t t, std::size_t v, std::int64_t at) {
            sums[t][v] += gradient * load<float>(window + at);
        });
    }
    for_window<vectors>(side * p.in, p.in, [&](std::size_t t, std::size_t v, std::int64_t at) {
        store<float>(sums[t][v], dweight + at);
    });
}

/// The image's gradients of one output channel.
template <std::size_t vectors>
void add_channel_to_image(const WinnerGradients& p, const float* weight, const Winner* list,
                          std::int32_t count, float* image_gradient) {
    Values weights[taps][vectors];
    for_window<vectors>(side * p.in, p.in, [&](std::size_t t, std::size_t v, std::int64_t at) {
        weights[t][v] = load<float>(weight + at);
    });
    for (const Winner* one = list; one != list + count; ++one) {
        const Values gradient = Values{} + one->gradient;
        float* const window = image_gradient + one->place;
        for_window<vectors>(p.row, p.in, [&](std::size_t t, std::size_t v, std::int64_t at) {
            store<float>(load<float>(window + at) + gradient * weights[t][v], window + at);
        });
    }
}

}  // namespace

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
                count[c] += winner[c] < 4;
            }
            dy += p.out;
            winner += p.out;
        }
}

void add_winner_gradients(const WinnerGradients& p, const float* image, const Winner* list,
                          const std::int32_t* count, float* dweight, float* dbias) {
    assert(p.in % lane_count == 0);
    for (std::int64_t o = 0; o < p.out; ++o) {
        const Winner* const winners = list + o * p.windows();
        float* const gradient = dweight + o * side * side * p.in;
        std::int64_t c = 0;
        for (; c + 2 * lane_count <= p.in; c += 2 * lane_count)
            add_channel<2>(p, image + c, winners, count[o], gradient + c);
        if (c < p.in) add_channel<1>(p, image + c, winners, count[o], gradient + c);
        if (!dbias) continue;
        for (std::int32_t i = 0; i < count[o]; ++i) dbias[o] += winners[i].gradient;
    }
}

void add_winner_image_gradients(const WinnerGradients& p, const float* weight, const Winner* list,
                                const std::int32_t* count, float* image_gradient) {
    assert(p.in % lane_count == 0);
    for (std::int64_t o = 0; o < p.out; ++o) {
        const Winner* const winners = list + o * p.windows();
        const float* const of_channel = weight + o * side * side * p.in;
        std::int64_t c = 0;
        for (; c + 2 * lane_count <= p.in; c += 2 * lane_count)
            add_channel_to_image<2>(p, of_channel + c, winners, count[o], image_gradient + c);
        if (c < p.in) add_channel_to_image<1>(p, of_channel + c, winners, count[o], image_gradient + c);
    }
}

}  // namespace tutti
