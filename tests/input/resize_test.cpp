#include "input/resize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace tutti {
namespace {

Image grey(std::int64_t height, std::int64_t width, const std::vector<int>& values) {
    Image image{height, width, 1, {}};
    for (const int value : values) image.pixels.push_back(static_cast<std::byte>(value));
    return image;
}

std::vector<int> values_of(const Image& image) {
    std::vector<int> values;
    for (const std::byte byte : image.pixels) values.push_back(static_cast<int>(byte));
    return values;
}

Image resize_and_crop(const Image& image, std::int64_t height, std::int64_t width) {
    return resize(image, place_image(image.height, image.width, height, width, Fit::crop));
}

TEST(Resize, ShrinksByTrianglesAndGrowsBilinearly) {
    // A triangle as wide as two pixels to either side, cut at the edge: 4 -> 2 has the weights 3, 3, 1 of 7.
    EXPECT_EQ(values_of(resize(grey(1, 4, {0, 70, 140, 210}), 1, 2)), (std::vector{50, 160}));
    EXPECT_EQ(values_of(resize(grey(4, 1, {0, 70, 140, 210}), 2, 1)), (std::vector{50, 160}));
    EXPECT_EQ(values_of(resize(grey(1, 2, {0, 100}), 1, 4)), (std::vector{0, 25, 75, 100}));
    EXPECT_EQ(values_of(resize(grey(2, 2, {0, 100, 100, 200}), 1, 1)), (std::vector{100}));
    EXPECT_EQ(values_of(resize(grey(2, 2, {1, 2, 3, 4}), 2, 2)), (std::vector{1, 2, 3, 4}));
    for (const int value : values_of(resize(grey(7, 5, std::vector<int>(35, 93)), 3, 4)))
        EXPECT_EQ(value, 93);
}

TEST(Resize, EachColourIsScaledOnItsOwn) {
    constexpr std::size_t colours = 3;
    std::array<std::vector<int>, colours> planes;
    Image image{11, 13, colours, {}};
    for (std::size_t i = 0; i < 11 * 13 * colours; ++i) {
        const int value = static_cast<int>(i * i * 31 % 256);
        planes[i % colours].push_back(value);
        image.pixels.push_back(static_cast<std::byte>(value));
    }
    for (const auto& [height, width] : {std::pair{4, 5}, {23, 6}, {7, 30}}) {
        const std::vector<int> all = values_of(resize(image, height, width));
        for (std::size_t c = 0; c < colours; ++c) {
            std::vector<int> plane;
            for (std::size_t i = c; i < all.size(); i += colours) plane.push_back(all[i]);
            EXPECT_EQ(plane, values_of(resize(grey(11, 13, planes[c]), height, width))) << "colour " << c;
        }
    }
}

TEST(Resize, HalvesAreRoundedUp) {
    EXPECT_EQ(values_of(resize(grey(1, 2, {0, 1}), 1, 1)), (std::vector{1}));
    EXPECT_EQ(values_of(resize(grey(2, 1, {254, 255}), 1, 1)), (std::vector{255}));
}

TEST(Resize, TakesTheCentreOfTheScaledImage) {
    const Image cut = resize_and_crop(grey(1, 5, {1, 2, 3, 4, 5}), 1, 3);
    EXPECT_EQ(values_of(cut), (std::vector{2, 3, 4}));
    const Image grown = resize_and_crop(grey(1, 3, {0, 100, 200}), 2, 2);
    EXPECT_EQ(grown.height, 2);
    EXPECT_EQ(values_of(grown), (std::vector{75, 125, 75, 125}));
}

TEST(Resize, TheCentreIsThatOfTheWholeScaledImage) {
    std::vector<int> values;
    for (int i = 0; i < 9 * 31; ++i) values.push_back(i * 37 % 256);
    const Image image = grey(9, 31, values), whole = resize(image, 5, 17);
    const Image cut = resize_and_crop(image, 5, 4);
    ASSERT_EQ(cut.pixels.size(), 20u);
    for (std::size_t y = 0; y < 5; ++y)
        for (std::size_t x = 0; x < 4; ++x)
            EXPECT_EQ(cut.pixels[y * 4 + x], whole.pixels[y * 17 + 6 + x]) << y << " " << x;
}

TEST(Resize, ALetterboxIsBlackAroundTheImage) {
    const auto boxed = [](const Image& image, std::int64_t height, std::int64_t width) {
        return values_of(
            resize(image, place_image(image.height, image.width, height, width, Fit::letterbox)));
    };
    EXPECT_EQ(boxed(grey(1, 2, {9, 8}), 2, 2), (std::vector{9, 8, 0, 0}));
    EXPECT_EQ(boxed(grey(1, 2, {9, 8}), 3, 2), (std::vector{0, 0, 9, 8, 0, 0}));
    EXPECT_EQ(boxed(grey(2, 1, {9, 8}), 2, 4), (std::vector{0, 9, 0, 0, 0, 8, 0, 0}));
    // Shrunk as in ShrinksByTrianglesAndGrowsBilinearly.
    EXPECT_EQ(boxed(grey(1, 4, {0, 70, 140, 210}), 3, 2), (std::vector{0, 0, 50, 160, 0, 0}));
    Image colours{1, 2, 3, {}};
    for (int i = 1; i <= 6; ++i) colours.pixels.push_back(static_cast<std::byte>(i));
    EXPECT_EQ(boxed(colours, 2, 2), (std::vector{1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0}));
}

TEST(Resize, ALongLineNeedsNoMemoryForWhatIsCutOff) {
    // Scaled whole it had 4096 x 268435456 pixels.
    std::vector<int> values(65536, 7);
    std::fill(values.begin(), values.begin() + 32768, 9);
    const Image cut = resize_and_crop(grey(1, 65536, values), 4096, 2);
    EXPECT_EQ(cut.height, 4096);
    EXPECT_EQ(values_of(cut), std::vector<int>(8192, 8));
}

}  // namespace
}  // namespace tutti
