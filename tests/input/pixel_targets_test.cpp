// Targets that are places in an image.
#include "input/pixel_targets.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

using Names = std::vector<std::string>;

std::string refused_pixels(const Names& targets, const Names& pixels) {
    try {
        PixelTargets(targets, pixels);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(PixelTargets, OnlyThoseNamedMoveXWithTheColumnsAndYWithTheRows) {
    const Placement box = place_image(4, 8, 4, 4, Fit::letterbox);
    const PixelTargets targets(Names{"y", "presence", "x", "right", "bottom"},
                               Names{"x", "y", "right", "bottom"});
    std::vector<float> values{1, 1, 7, NAN, 0};
    targets.move(values, box);
    EXPECT_EQ(values[0], 1.25F);
    EXPECT_EQ(values[1], 1);
    EXPECT_EQ(values[2], 3.25F);
    EXPECT_TRUE(std::isnan(values[3]));
    EXPECT_EQ(values[4], 0.75F);
    const PixelTargets none(Names{"x", "y"}, Names{});
    std::vector<float> still{3, 4};
    none.move(still, box);
    EXPECT_EQ(still, (std::vector{3.F, 4.F}));
}

TEST(PixelTargets, PlacesOutsideOfTheSampleAreFound) {
    const Placement box = place_image(4, 8, 4, 4, Fit::letterbox);
    const PixelTargets targets(Names{"x", "n", "y"}, Names{"x", "y"});
    const auto outside = [&](float x, float y) {
        return targets.has_place_outside(std::vector<float>{x, 900, y}, box);
    };
    EXPECT_FALSE(outside(-0.5F, 3.5F));
    EXPECT_TRUE(outside(-0.6F, 0));
    EXPECT_TRUE(outside(3.6F, 0));
    EXPECT_TRUE(outside(0, 3.6F));
    EXPECT_TRUE(outside(0, -1));
    EXPECT_FALSE(outside(NAN, 0));
}

TEST(PixelTargets, WhatIsNoPairOfTargetsIsRefused) {
    EXPECT_EQ(refused_pixels({"x", "y"}, {"x"}),
              "--target-pixels names 1 columns, and a place has two; name x and y of each place: x,y or "
              "x1,y1,x2,y2");
    EXPECT_EQ(refused_pixels({"x", "y"}, {"x", "z"}),
              "--target-pixels: z is not among the columns of --target; name some of x, y");
    EXPECT_EQ(refused_pixels({"x", "y"}, {"x", "x"}),
              "--target-pixels names the column x twice; name each column once");
    EXPECT_EQ(refused_pixels({"x", "y"}, {"y", "x"}), "accepted");
}

}  // namespace
}  // namespace tutti
