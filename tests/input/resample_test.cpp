#include "input/resample.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

namespace tutti {
namespace {

/// Element i is i²·31 mod 256.
template <class T>
std::vector<T> squares(std::int64_t count) {
    std::vector<T> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(i * i * 31 % 256));
    return values;
}

struct Size {
    std::int64_t height, width;
};

/// The part of the image of `row` elements per row that begins at element `begin`.
template <class T>
std::vector<T> scaled(const std::vector<T>& image, std::size_t begin, std::size_t row, Size from, Size to,
                      std::size_t channels = 1) {
    const Taps down({from.height, to.height, 0, to.height}), across({from.width, to.width, 0, to.width});
    std::vector<float> memory(resample_memory(down, across, channels));
    std::vector<T> result(down.size() * across.size() * channels);
    resample(image.data() + begin, row, channels, down, across, memory.data(), result.data());
    return result;
}

void expect_near(const std::vector<float>& values, const std::vector<double>& expected, double by) {
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(static_cast<double>(values[i]), expected[i], by) << i;
}

// Expected: Pillow 13's Image.resize((width, height), Image.BILINEAR) of a 32-bit floating-point image.
TEST(Resample, IsPillowsBilinearResizeOfNumbers) {
    expect_near(scaled(squares<float>(35), 0, 7, {5, 7}, {5, 3}),
                {39.857, 97.353, 87.286, 212.0, 117.412, 126.286, 94.143, 133.588, 131.286, 106.857, 145.882,
                 157.143, 231.857, 124.176, 185.571},
                6e-4);
    expect_near(scaled(squares<float>(9), 0, 3, {3, 3}, {8, 5}),
                {0.0,    12.4,    31.0,    86.8,    124.0,   1.438,  18.487,  44.062,  87.638,  116.688,
                 10.062, 55.013,  122.438, 92.662,  72.812,  18.688, 91.538,  200.812, 97.688,  28.938,
                 35.938, 117.488, 239.812, 120.938, 41.688,  61.812, 132.863, 239.438, 162.413, 111.062,
                 87.688, 148.238, 239.062, 203.887, 180.438, 92.0,   150.8,   239.0,   210.8,   192.0},
                6e-4);
}

// Expected: Pillow's, of rows 2 to 10 and columns 3 to 8 of 13 x 11 pixels.
TEST(Resample, APartIsWhatAnImageOfThatPartAloneWouldBe) {
    expect_near(scaled(squares<float>(143), 2 * 11 + 3, 11, {9, 6}, {4, 8}),
                {193.26, 176.85, 163.95, 157.36, 148.38, 187.30, 198.70, 177.29, 119.41, 103.42, 130.90,
                 188.59, 164.06, 154.87, 139.21, 118.22, 101.37, 133.85, 130.52, 98.095, 131.73, 137.78,
                 128.78, 113.34, 157.49, 179.57, 174.47, 138.20, 104.11, 145.34, 128.88, 54.543},
                6e-3);
    // Of bytes Pillow rounds rows, too.
    const std::vector<int> expected{193, 177, 164, 158, 149, 188, 199, 177, 119, 103, 131,
                                    189, 164, 155, 139, 118, 101, 134, 130, 98,  131, 138,
                                    129, 113, 157, 180, 175, 138, 104, 145, 129, 55};
    const auto bytes = scaled(squares<std::byte>(143), 2 * 11 + 3, 11, {9, 6}, {4, 8});
    ASSERT_EQ(bytes.size(), expected.size());
    for (std::size_t i = 0; i < bytes.size(); ++i)
        EXPECT_NEAR(std::to_integer<int>(bytes[i]), expected[i], 1) << i;
}

TEST(Resample, AChannelIsTheSameAmongAnyNumberOfThem) {
    for (const std::size_t channels : {2U, 3U, 4U, 5U, 16U, 23U, 48U}) {
        const auto image = squares<float>(7 * 9 * static_cast<std::int64_t>(channels));
        for (const Size to : {Size{3, 4}, Size{11, 5}, Size{2, 20}}) {
            const auto all = scaled(image, 0, 9 * channels, {7, 9}, to, channels);
            for (std::size_t c = 0; c < channels; ++c) {
                std::vector<float> plane, part;
                for (std::size_t i = c; i < image.size(); i += channels) plane.push_back(image[i]);
                for (std::size_t i = c; i < all.size(); i += channels) part.push_back(all[i]);
                EXPECT_EQ(part, scaled(plane, 0, 9, {7, 9}, to)) << channels << " channels, channel " << c;
            }
        }
    }
}

TEST(Resample, PixelsThatAreNotSeenDoNotMatter) {
    // At its own scale a pixel sees itself alone; what lies around the part is never read.
    auto image = squares<float>(6 * 6);
    for (std::size_t i = 0; i < image.size(); ++i)
        if (i / 6 < 2 || i / 6 > 4 || i % 6 < 1 || i % 6 > 3)
            image[i] = std::numeric_limits<float>::quiet_NaN();
    const auto same = scaled(image, 13, 6, {3, 3}, {3, 3});
    for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(same[i], image[13 + i / 3 * 6 + i % 3]);
    for (const float value : scaled(image, 13, 6, {3, 3}, {5, 2})) EXPECT_EQ(value, value);
}

TEST(Taps, WeightsAreAboveZeroAndAddUpToOne) {
    for (const auto& [from, to] : {std::pair{1, 9}, {9, 1}, {5, 5}, {7, 3}, {224, 158}, {158, 224}}) {
        const Taps taps({from, to, 0, to});
        EXPECT_LE(taps.widest(), Taps::most(from, to));
        EXPECT_LE(taps.widest(), Taps::most(from + 1, to));
        ASSERT_EQ(taps.size(), static_cast<std::size_t>(to));
        for (std::size_t i = 0; i < taps.size(); ++i) {
            double sum = 0;
            for (const double weight : taps[i].weights) {
                EXPECT_GT(weight, 0);
                sum += weight;
            }
            EXPECT_NEAR(sum, 1, 1e-14);
            EXPECT_LE(taps[i].first + taps[i].weights.size(), static_cast<std::size_t>(from));
            EXPECT_LE(taps[i].weights.size(), taps.widest());
        }
    }
}

}  // namespace
}  // namespace tutti
