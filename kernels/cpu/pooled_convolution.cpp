#include "pooled_convolution.hpp"

#include <algorithm>
#include <cassert>

#include "max_pool_lanes.hpp"

namespace tutti {
namespace {

using Lanes = MaxPoolLanes<float>;
using Values = Lanes::Values;
constexpr std::int64_t lane_count = Lanes::count;
constexpr auto lane_width = static_cast<std::size_t>(lane_count);

/// Two vectors of channels give 8 sums in flight, as many as the units that multiply want.
template <std::size_t vectors>
void pool_window(const PooledConvolution& p, const float* x, const float* weight, const float* bias, float* y,
                 unsigned char* winner) {
    Values sums[vectors][4];
#pragma GCC unroll 2
    for (std::size_t v = 0; v < vectors; ++v)
#pragma GCC unroll 4
        for (std::size_t k = 0; k < 4; ++k) sums[v][k] = Lanes::load(bias + v * lane_width);
    const float *const x0 = x + p.places[0], *const x1 = x + p.places[1], *const x2 = x + p.places[2],
                       *const x3 = x + p.places[3];
    for (const std::int64_t tap : p.taps) {
        const float a = x0[tap], b = x1[tap], c = x2[tap], d = x3[tap];
#pragma GCC unroll 2
        for (std::size_t v = 0; v < vectors; ++v) {
            const Values w = Lanes::load(weight + v * lane_width);
            sums[v][0] += w * a;
            sums[v][1] += w * b;
            sums[v][2] += w * c;
            sums[v][3] += w * d;
        }
        weight += p.channels;
    }
#pragma GCC unroll 2
    for (std::size_t v = 0; v < vectors; ++v) {
        Values best = sums[v][0];
        Lanes::Places place{};
#pragma GCC unroll 3
        for (unsigned char k = 1; k < 4; ++k) Lanes::challenge(sums[v][k], k, best, place);
        if (p.relu) Lanes::rectify(best, place);
        Lanes::store(best, place, y + v * lane_width, winner + v * lane_width);
    }
}

/// So many taps' sums, and the bias's, stay in registers over an image.
constexpr std::size_t taps_at_once = 9;

/// The gradients of `count` taps, at most taps_at_once, in one vector of channels; the others' sums are of no
/// use. `first`: with dbias's.
void add_gradients_of_taps(const PooledConvolution& p, const std::int64_t* taps, std::size_t count,
                           const float* x, const float* dy, const unsigned char* winner, float* dweight,
                           float* dbias) {
    std::int64_t tap[taps_at_once] = {};
    std::copy(taps, taps + count, tap);
    Values sums[taps_at_once] = {}, all{};
    for (std::int64_t oh = 0; oh < p.out_height; ++oh) {
        const float* window = x + oh * p.row_step;
        for (std::int64_t ow = 0; ow < p.out_width; ++ow) {
            const Values gradient = Lanes::load(dy);
            const Lanes::Places place = Lanes::load_places(winner);
#pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) {
                const Values share = place == k ? gradient : Values{};
                const float* const from = window + p.places[k];
                all += share;
#pragma GCC unroll 9
                for (std::size_t t = 0; t < taps_at_once; ++t) sums[t] += share * from[tap[t]];
            }
            window += p.column_step;
            dy += p.channels;
            winner += p.channels;
        }
    }
    const auto add_to = [](float* to, Values sum) {
        sum += Lanes::load(to);
        std::memcpy(to, &sum, sizeof sum);
    };
    for (std::size_t t = 0; t < count; ++t)
        add_to(dweight + static_cast<std::int64_t>(t) * p.channels, sums[t]);
    if (dbias) add_to(dbias, all);
}

}  // namespace

void pool_convolution(const PooledConvolution& p, const float* x, const float* weight, const float* bias,
                      float* y, unsigned char* winner) {
    assert(p.channels % lane_count == 0);
    for (std::int64_t oh = 0; oh < p.out_height; ++oh) {
        const float* window = x + oh * p.row_step;
        for (std::int64_t ow = 0; ow < p.out_width; ++ow) {
            std::int64_t c = 0;
            for (; c + 2 * lane_count <= p.channels; c += 2 * lane_count)
                pool_window<2>(p, window, weight + c, bias + c, y + c, winner + c);
            if (c < p.channels) pool_window<1>(p, window, weight + c, bias + c, y + c, winner + c);
            window += p.column_step;
            y += p.channels;
            winner += p.channels;
        }
    }
}

void add_pooled_gradients(const PooledConvolution& p, const float* x, const float* dy,
                          const unsigned char* winner, float* dweight, float* dbias) {
    assert(p.channels % lane_count == 0);
    for (std::int64_t c = 0; c < p.channels; c += lane_count)
        for (std::size_t t = 0; t < p.taps.size(); t += taps_at_once)
            add_gradients_of_taps(p, p.taps.data() + t, std::min(taps_at_once, p.taps.size() - t), x, dy + c,
                                  winner + c, dweight + static_cast<std::int64_t>(t) * p.channels + c,
                                  t == 0 ? dbias + c : nullptr);
}

}  // namespace tutti
