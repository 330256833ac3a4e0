// The image's gradient output channel by output channel: its weights in the registers.

#include "winner_image_gradients.hpp"

#include "winner_window.hpp"

namespace tutti {
namespace {

using Values = Vector<float>;
constexpr std::int64_t lane_count = lanes<float>;
constexpr std::int64_t side = winner_window_side;
constexpr std::size_t taps = winner_window_taps;

/// Of one output channel, in a slice of `vectors` vectors of input channels.
template <std::size_t vectors>
void add_channel(const WinnerGradients& p, const float* weight, const Winner* list, std::int32_t count,
                 float* slice) {
    constexpr auto pixel = static_cast<std::int64_t>(vectors) * lane_count;
    const std::int64_t row = p.row() * pixel;
    Values weights[taps][vectors];
    for_winner_window<vectors>(side * p.in, p.in, [&](std::size_t t, std::size_t v, std::int64_t at) {
        weights[t][v] = load<float>(weight + at);
    });
    for (const Winner* one = list; one != list + count; ++one) {
        const Values gradient = Values{} + one->gradient;
        float* const window = slice + one->place * pixel;
        for_winner_window<vectors>(row, pixel, [&](std::size_t t, std::size_t v, std::int64_t at) {
            store<float>(load<float>(window + at) + gradient * weights[t][v], window + at);
        });
    }
}

/// Of all output channels; the slice begins at input channel c.
template <std::size_t vectors>
void add_slice(const WinnerGradients& p, const float* weight, std::int64_t c, const Winner* list,
               const std::int32_t* count, float* image_gradient) {
    for (std::int64_t o = 0; o < p.out; ++o)
        add_channel<vectors>(p, weight + o * side * side * p.in + c, list + o * p.windows(), count[o],
                             image_gradient + c * p.pixels());
}

}  // namespace

void scatter_winner_image_gradients(const WinnerGradients& p, const float* weight, const Winner* list,
                                    const std::int32_t* count, float* image_gradient) {
    std::int64_t c = 0;
    for (; c + weight_slice <= p.in; c += weight_slice)
        add_slice<weight_slice / lane_count>(p, weight, c, list, count, image_gradient);
    for (; c < p.in; c += lane_count) add_slice<1>(p, weight, c, list, count, image_gradient);
}

}  // namespace tutti
