// Convolutions along one axis as their definition has them, read through planes of padded rows.
#include "convolution_taps.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::test {
namespace {

struct Axis {
    std::int64_t size, window, stride, padding;
    std::int64_t outputs() const { return (size + 2 * padding - window) / stride + 1; }
};

std::vector<Axis> axes() {
    std::vector<Axis> all;
    for (const std::int64_t size : {1, 2, 3, 7, 8, 14})
        for (const std::int64_t window : {1, 2, 3, 5})
            for (const std::int64_t stride : {1, 2, 3, 4})
                for (const std::int64_t padding : {0, 1, 2})
                    if (size + 2 * padding >= window) all.push_back({size, window, stride, padding});
    return all;
}

/// Numbers that tell every place from every other: 1 + i² of those that are there.
std::vector<std::int64_t> numbers(std::int64_t count) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(1 + i * i);
    return values;
}

/// What a kernel does with a TapAxis: places what is read, the same three times, into planes of zeros and one
/// behind the other, then sums over taps.
std::vector<std::int64_t> sums(const TapAxis& axis, const std::vector<std::int64_t>& from,
                               const std::vector<std::int64_t>& window, std::int64_t outputs) {
    constexpr std::int64_t times = 3;
    std::vector<std::vector<std::int64_t>> planes(
        static_cast<std::size_t>(axis.planes),
        std::vector<std::int64_t>(static_cast<std::size_t>((times - 1) * axis.pitch + axis.reach)));
    std::int64_t placed = 0;
    for (std::int64_t time = 0; time < times; ++time)
        for (std::int64_t plane = 0; plane < axis.planes; ++plane)
            for (std::int64_t i = 0; i < axis.count_in(plane); ++i, ++placed) {
                const std::int64_t at = axis.first_in(plane) + i * axis.planes;
                std::int64_t& place =
                    planes.at(static_cast<std::size_t>(plane))
                        .at(static_cast<std::size_t>(time * axis.pitch + axis.place_of(at)));
                EXPECT_EQ(place, 0);
                place = from.at(static_cast<std::size_t>(at));
            }
    EXPECT_EQ(placed, times * static_cast<std::int64_t>(from.size()));
    std::vector<std::int64_t> to(static_cast<std::size_t>(times * outputs), 0);
    std::int64_t written = 0;
    for (std::int64_t time = 0; time < times; ++time)
        for (const TapAxis::Grid& grid : axis.grids) {
            EXPECT_LE(grid.size, axis.pitch);
            for (std::int64_t i = 0; i < grid.size; ++i, ++written) {
                std::int64_t& sum =
                    to.at(static_cast<std::size_t>(time * outputs + grid.phase + i * axis.step));
                for (const TapAxis::Tap& tap : grid.taps)
                    sum += window.at(static_cast<std::size_t>(tap.window)) *
                           planes.at(static_cast<std::size_t>(tap.plane))
                               .at(static_cast<std::size_t>(time * axis.pitch + i + tap.offset));
            }
        }
    EXPECT_EQ(written, times * outputs);
    return to;
}

std::vector<std::int64_t> three_times(const std::vector<std::int64_t>& values) {
    std::vector<std::int64_t> all;
    for (int i = 0; i < 3; ++i) all.insert(all.end(), values.begin(), values.end());
    return all;
}

TEST(ConvolutionTaps, are_the_definition) {
    for (const Axis& a : axes()) {
        SCOPED_TRACE(testing::Message() << "size " << a.size << ", window " << a.window << ", stride "
                                        << a.stride << ", padding " << a.padding);
        const auto x = numbers(a.size), window = numbers(a.window), dy = numbers(a.outputs());
        std::vector<std::int64_t> y(static_cast<std::size_t>(a.outputs())),
            dx(static_cast<std::size_t>(a.size));
        for (std::int64_t o = 0; o < a.outputs(); ++o)
            for (std::int64_t k = 0; k < a.window; ++k) {
                const std::int64_t i = o * a.stride + k - a.padding;
                if (i < 0 || i >= a.size) continue;
                const auto at = static_cast<std::size_t>(i), out = static_cast<std::size_t>(o);
                y[out] += x[at] * window[static_cast<std::size_t>(k)];
                dx[at] += dy[out] * window[static_cast<std::size_t>(k)];
            }
        EXPECT_EQ(sums(TapAxis::forward(a.size, a.window, a.stride, a.padding), x, window, a.outputs()),
                  three_times(y));
        EXPECT_EQ(sums(TapAxis::backward(a.size, a.window, a.stride, a.padding), dy, window, a.size),
                  three_times(dx));
    }
}

}  // namespace
}  // namespace tutti::test
