// Where images lie in samples, and where places in them are there.
#include "input/image_placement.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

void expect_line(const PlacedLine& line, const PlacedLine& expected) {
    EXPECT_EQ(line.from, expected.from);
    EXPECT_EQ(line.scaled, expected.scaled);
    EXPECT_EQ(line.offset, expected.offset);
    EXPECT_EQ(line.size, expected.size);
}

TEST(ImagePlacement, ALetterboxScalesBothSidesAlikeUntilTheyFit) {
    const Placement wide = place_image(4, 8, 4, 4, Fit::letterbox);
    expect_line(wide.rows, {4, 2, 1, 4});
    expect_line(wide.columns, {8, 4, 0, 4});
    const Placement high = place_image(8, 4, 4, 4, Fit::letterbox);
    expect_line(high.rows, {8, 4, 0, 4});
    expect_line(high.columns, {4, 2, 1, 4});
    // 3 · 4 / 5 is 2.4 rows, so 2; of the 3 that are left over in 5 one is above.
    expect_line(place_image(3, 5, 4, 4, Fit::letterbox).rows, {3, 2, 1, 4});
    expect_line(place_image(2, 5, 5, 5, Fit::letterbox).rows, {2, 2, 1, 5});
    // Small ones grow, and nothing becomes no pixel.
    expect_line(place_image(2, 3, 6, 6, Fit::letterbox).rows, {2, 4, 1, 6});
    expect_line(place_image(1, 1000, 8, 8, Fit::letterbox).rows, {1, 1, 3, 8});
    expect_line(place_image(3, 4, 6, 16, Fit::letterbox).columns, {4, 8, 4, 16});
}

TEST(ImagePlacement, ACropCutsBothEndsAndAStretchNeither) {
    const Placement crop = place_image(3, 5, 4, 4, Fit::crop);
    expect_line(crop.rows, {3, 4, 0, 4});
    expect_line(crop.columns, {5, 6, -1, 4});
    // Half of an odd rest is rounded to even, as in torchvision: 0.5 to 0, and 1.5 to 2.
    expect_line(place_image(4, 5, 4, 4, Fit::crop).columns, {5, 5, 0, 4});
    expect_line(place_image(4, 7, 4, 4, Fit::crop).columns, {7, 7, -2, 4});
    expect_line(place_image(309, 215, 256, 256, Fit::crop).rows, {309, 367, -56, 256});
    expect_line(place_image(359, 344, 256, 256, Fit::crop).rows, {359, 267, -6, 256});
    // In whole numbers, as torchvision: 2 · 61 pixels are not 121.
    for (std::int64_t from = 1; from < 300; ++from)
        for (std::int64_t to = 1; to < 300; ++to) {
            const Placement twice = place_image(from, 2 * from, to, to, Fit::crop);
            ASSERT_EQ(twice.columns.scaled, 2 * to) << from << " to " << to;
            ASSERT_EQ(twice.rows.scaled, to);
        }
    const Placement stretch = place_image(3, 5, 4, 6, Fit::stretch);
    expect_line(stretch.rows, {3, 4, 0, 4});
    expect_line(stretch.columns, {5, 6, 0, 6});
}

TEST(ImagePlacement, PositionsKeepTheirPartOfTheArea) {
    // Wide letterbox of half the size: x' = (x + 0.5) / 2 - 0.5, and a row of black above.
    const Placement box = place_image(4, 8, 4, 4, Fit::letterbox);
    EXPECT_EQ(box.columns.position(0), -0.25);
    EXPECT_EQ(box.columns.position(7), 3.25);
    EXPECT_EQ(box.columns.position(-0.5), -0.5);  // the image's edges are the sample's
    EXPECT_EQ(box.columns.position(7.5), 3.5);
    EXPECT_EQ(box.rows.position(0), 0.75);
    EXPECT_EQ(box.rows.position(1), 1.25);
    // Sides are scaled as their pixels are: 3 rows become 2.
    const Placement uneven = place_image(3, 5, 4, 4, Fit::letterbox);
    EXPECT_DOUBLE_EQ(uneven.rows.position(1), 1.5);
    EXPECT_NEAR(uneven.columns.position(1), 0.7, 1e-12);
    // Crops keep what is outside.
    const Placement crop = place_image(3, 5, 4, 4, Fit::crop);
    EXPECT_DOUBLE_EQ(crop.columns.position(2), 1.5);
    EXPECT_DOUBLE_EQ(crop.columns.position(0), 0.6 - 1.5);
    EXPECT_DOUBLE_EQ(crop.rows.position(2), 17.0 / 6);
    const Placement stretch = place_image(4, 8, 4, 4, Fit::stretch);
    EXPECT_EQ(stretch.columns.position(7), 3.25);
    EXPECT_EQ(stretch.rows.position(1.25), 1.25);
}

TEST(ImagePlacement, PositionsCanBeTracedBack) {
    for (const Fit fit : {Fit::crop, Fit::letterbox, Fit::stretch})
        for (const PlacedLine& line : {place_image(3, 17, 4, 9, fit).columns,
                                       place_image(3, 5, 8, 5, fit).rows, place_image(3, 5, 3, 5, fit).rows})
            for (const double x : {-0.5, 0.0, 1.25, 2.0}) {
                EXPECT_NEAR(line.source(line.position(x)), x, 1e-12);
                EXPECT_NEAR(line.source(x + 1) - line.source(x), line.step(), 1e-12);
            }
}

TEST(ImagePlacement, WhatIsNotScaledStaysWhatItIs) {
    for (const Fit fit : {Fit::crop, Fit::letterbox, Fit::stretch}) {
        const Placement same = place_image(3, 5, 3, 5, fit);
        expect_line(same.rows, {3, 3, 0, 3});
        expect_line(same.columns, {5, 5, 0, 5});
        EXPECT_EQ(same.columns.position(1e-9), 1e-9);
    }
}

}  // namespace
}  // namespace tutti
