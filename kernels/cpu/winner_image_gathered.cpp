// The image's gradient window by window: a window's sums in the registers.

#include "winner_image_gradients.hpp"

#include <cassert>

#include "winner_window.hpp"

namespace tutti {
namespace {

using Values = Vector<float>;
constexpr std::int64_t lane_count = lanes<float>;
constexpr std::int64_t side = winner_window_side;
constexpr std::size_t taps = winner_window_taps;
/// Elements of an output channel in a slice of ordered weights.
constexpr std::int64_t of_channel = side * side * gathered_slice;
constexpr std::int64_t places = 4;

/// Of what passed at one place of a window, in a slice.
void add_window(const float* weights, const float* dy, const std::uint16_t* list, std::int32_t count,
                std::int64_t row, float* slice) {
    Values sums[taps] = {};
    for (const std::uint16_t* one = list; one != list + count; ++one) {
        const float gradient = dy[*one];
        const float* const own = weights + *one * of_channel;
        for_winner_window<1>(side * lane_count, lane_count, [&](std::size_t t, std::size_t, std::int64_t at) {
            sums[t] += gradient * load<float>(own + at);
        });
    }
    for_winner_window<1>(row, lane_count, [&](std::size_t t, std::size_t, std::int64_t at) {
        store<float>(load<float>(slice + at) + sums[t], slice + at);
    });
}

}  // namespace

void order_winner_weights(const WinnerGradients& p, const float* weight, std::int64_t begin, std::int64_t end,
                          float* ordered) {
    const std::int64_t all = p.out * side * side;
    for (std::int64_t slice = begin; slice < end; ++slice)
        for (std::int64_t tap = 0; tap < all; ++tap)
            store<float>(load<float>(weight + tap * p.in + slice * gathered_slice),
                         ordered + (slice * all + tap) * gathered_slice);
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

void gather_winner_image_gradients(const WinnerGradients& p, const float* ordered, const float* dy,
                                   const std::uint16_t* list, const std::int32_t* count,
                                   float* image_gradient) {
    const std::int64_t row = p.row() * gathered_slice;
    for (std::int64_t c = 0; c < p.in; c += gathered_slice) {
        const float* const weights = ordered + c * p.out * side * side;
        float* const slice = image_gradient + c * p.pixels();
        for (std::int64_t window = 0; window < p.windows(); ++window) {
            const std::int64_t pixel =
                window / p.windows_w * p.row_step + window % p.windows_w * p.column_step;
            for (std::int64_t place = 0; place < places; ++place) {
                const std::int64_t part = window * places + place;
                if (count[part] > 0)
                    add_window(weights, dy + window * p.out, list + part * p.out, count[part], row,
                               slice + (pixel + p.places[place]) * gathered_slice);
            }
        }
    }
}

}  // namespace tutti
