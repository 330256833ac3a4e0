// What is said of data that a model sees beside those it was trained on.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tutti/input/dataset.hpp"

namespace tutti {
namespace {

TEST(OtherClassName, IsTheFirstThatDiffers) {
    using Names = std::vector<std::string>;
    const Names trained{"cat", "dog", "horse"};
    EXPECT_EQ(other_class_name(trained, {"cat", "horse"}, "there"), "class 1 is horse, but there it is dog");
    EXPECT_EQ(other_class_name(trained, trained, ""), "");
    EXPECT_EQ(other_class_name(trained, {"cat", "dog"}, ""), "") << "the last has no samples there";
    for (const Names& unnamed : {Names{}, Names{"0", "1", "2"}}) {
        EXPECT_EQ(other_class_name(trained, unnamed, ""), "");
        EXPECT_EQ(other_class_name(unnamed, trained, ""), "");
    }
    EXPECT_EQ(other_class_name({"-1", "1"}, {"1", "-1"}, "there"), "class 0 is 1, but there it is -1");
}

TEST(DoubtAboutUnits, IsOfImagesWithAMeanOfWholePixels) {
    DatasetInfo info;
    info.dtype = DType::u8;
    EXPECT_EQ(doubt_about_units(info), "");
    info.mean = {0.485F, 1, 0.406F};
    EXPECT_EQ(doubt_about_units(info), "");
    info.mean = {117, 123, 104};
    EXPECT_EQ(
        doubt_about_units(info),
        "the mean is 123, but is taken from pixels that are scaled to [0, 1]; divide mean and std by 255");
    info.dtype = DType::f32;
    EXPECT_EQ(doubt_about_units(info), "") << "features are not scaled";
}

}  // namespace
}  // namespace tutti
