#include "input/multi_scale_crop.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tutti {
namespace {

using Cut = MultiScaleCrop::Cut;

TransformSpec spec(std::int64_t height, std::int64_t width, std::vector<double> scales) {
    TransformSpec result;
    result.kind = TransformSpec::Kind::multi_scale_crop;
    result.height = height;
    result.width = width;
    result.scales = std::move(scales);
    return result;
}

RandomStream stream(std::uint64_t position) {
    return {3, RandomPlace::augmentation, 1, position};
}

/// How often each cut is drawn.
std::map<Cut, int> cuts(const MultiScaleCrop& crop, int draws) {
    std::map<Cut, int> seen;
    for (int p = 0; p < draws; ++p) ++seen[crop.random_cut(stream(static_cast<std::uint64_t>(p)), 64)];
    return seen;
}

/// What VideoMAE's _sample_crop_size and fill_fix_offset(more_fix_crop=True) choose from: 13 places, in
/// steps of a fourth of the width and of the height that are left, for each (width, height).
std::map<Cut, int> choices(const std::vector<std::pair<int, int>>& pairs, int image_width, int image_height) {
    constexpr int steps[13][2]{{0, 0}, {4, 0}, {0, 4}, {4, 4}, {2, 2}, {0, 2}, {4, 2},
                               {2, 4}, {2, 0}, {1, 1}, {3, 1}, {1, 3}, {3, 3}};
    std::map<Cut, int> result;
    for (const auto& [w, h] : pairs)
        for (const auto& [x, y] : steps)
            ++result[{h, w, y * ((image_height - h) / 4), x * ((image_width - w) / 4)}];
    return result;
}

void expect_drawn_alike(const std::map<Cut, int>& seen, const std::map<Cut, int>& expected, int draws) {
    EXPECT_EQ(seen.size(), expected.size());
    int all = 0;
    for (const auto& [cut, count] : expected) all += count;
    for (const auto& [cut, count] : expected) {
        const double mean = static_cast<double>(draws) * count / all;
        const auto found = seen.find(cut);
        EXPECT_NEAR(found == seen.end() ? 0 : found->second, mean, 5 * std::sqrt(mean))
            << cut.height << " x " << cut.width << " at " << cut.top << ", " << cut.left;
    }
}

// The pairs (width, height) are what VideoMAE's _sample_crop_size gives for these images.
TEST(MultiScaleCrop, DrawsThePairsAndPlacesOfVideoMae) {
    constexpr int draws = 40000;
    const MultiScaleCrop frames(spec(224, 224, {1, 0.875, 0.75, 0.66}), 240, 320, 48, DType::u8);
    expect_drawn_alike(cuts(frames, draws),
                       choices({{240, 240},
                                {210, 240},
                                {240, 210},
                                {210, 210},
                                {180, 210},
                                {210, 180},
                                {180, 180},
                                {158, 180},
                                {180, 158},
                                {158, 158}},
                               320, 240),
                       draws);
    // 14 is 12 across, as 9 is 8 down: less than 3 apart. 9 across stays, and so does 14 down.
    const MultiScaleCrop oblong(spec(8, 12, {1, 0.7, 0.6}), 14, 19, 1, DType::u8);
    expect_drawn_alike(cuts(oblong, draws),
                       choices({{12, 14}, {9, 14}, {12, 8}, {9, 8}, {8, 8}, {9, 8}, {8, 8}}, 19, 14), draws);
}

TEST(MultiScaleCrop, NeverReachesBeyondTheImage) {
    for (const auto& [height, width] : {std::pair{222, 300}, {1, 1}, {2, 9}, {223, 223}})
        for (const auto& [cut, count] :
             cuts(MultiScaleCrop(spec(224, 2, {1, 0.9, 0.3}), height, width, 1, DType::u8), 500)) {
            EXPECT_GE(cut.height, 1);
            EXPECT_GE(cut.width, 1);
            EXPECT_LE(cut.top + cut.height, height);
            EXPECT_LE(cut.left + cut.width, width);
        }
}

TEST(MultiScaleCrop, DrawsAtItsAddressAlone) {
    const MultiScaleCrop crop(spec(8, 8, {1, 0.75, 0.5}), 31, 40, 1, DType::u8);
    std::set<std::uint64_t> differ;
    for (std::uint64_t p = 0; p < 50; ++p) {
        EXPECT_EQ(crop.random_cut(stream(p), 64), crop.random_cut(stream(p), 64));
        if (crop.random_cut(stream(p), 64) != crop.random_cut(stream(p), 128)) differ.insert(p);
    }
    EXPECT_GT(differ.size(), 30u);
}

template <class T>
std::vector<T> applied(const MultiScaleCrop& crop, const Cut& cut, const std::vector<T>& image,
                       std::size_t elements) {
    // As badly aligned as it may be.
    std::vector<std::byte> memory(crop.working_bytes() + 1);
    std::vector<T> result(elements);
    crop.apply(cut, reinterpret_cast<const std::byte*>(image.data()), memory.data() + 1,
               reinterpret_cast<std::byte*>(result.data()));
    return result;
}

TEST(MultiScaleCrop, ACutOfTheWantedSizeStaysAsItIs) {
    std::vector<std::byte> image;
    for (int i = 0; i < 4 * 5 * 2; ++i) image.push_back(static_cast<std::byte>(i));
    const MultiScaleCrop crop(spec(2, 3, {1}), 4, 5, 2, DType::u8);
    const auto pixels = applied(crop, {2, 3, 1, 2}, image, 12);
    for (std::size_t i = 0; i < 12; ++i)
        EXPECT_EQ(std::to_integer<std::size_t>(pixels[i]), ((1 + i / 6) * 5 + 2) * 2 + i % 6);
}

// Expected: Pillow 13's crop((3, 2, 7, 11)).resize((8, 4), Image.BILINEAR) of 32-bit floats, here in each of
// two frames, which get the same cut.
TEST(MultiScaleCrop, ACutBecomesPillowsBilinearResizeOfIt) {
    std::vector<float> image;
    for (int i = 0; i < 13 * 11; ++i)
        for (int frame = 0; frame < 2; ++frame) image.push_back(static_cast<float>(i * i * 31 % 256 + frame));
    const std::vector<double> expected{193.26, 186.69, 173.56, 164.96, 160.89, 155.86, 149.88, 146.89,
                                       119.41, 113.02, 100.23, 118.54, 167.97, 184.51, 168.15, 159.98,
                                       101.37, 114.36, 140.35, 138.13, 107.7,  103.7,  126.13, 137.34,
                                       157.49, 166.32, 183.99, 180.59, 156.12, 132.52, 109.79, 98.429};
    // base 11: heights 11, 9 and 4, widths 11, 8 and 4.
    const MultiScaleCrop crop(spec(4, 8, {1, 0.82, 0.4}), 13, 11, 2, DType::f32);
    const auto pixels = applied(crop, {9, 4, 2, 3}, image, 64);
    for (std::size_t i = 0; i < 32; ++i) {
        EXPECT_NEAR(static_cast<double>(pixels[2 * i]), expected[i], 6e-3);
        EXPECT_NEAR(static_cast<double>(pixels[2 * i + 1]), expected[i] + 1, 6e-3);
    }
}

}  // namespace
}  // namespace tutti
