// data.transforms: what is read, what is refused, and how.
#include "config_helpers.hpp"

namespace tutti {
namespace {

using Kind = TransformSpec::Kind;

std::vector<TransformSpec> transforms_of(const std::string& list) {
    return parse("", {"data.transforms=" + list}).data.transforms;
}

TEST(ConfigTransforms, may_be_plain_words_or_maps_with_parameters) {
    const auto specs = transforms_of(
        "[horizontal_flip, {vertical_flip: {p: 0.25}}, {random_crop: {size: 32, padding: 4}}, "
        "{center_crop: {size: [24, 28]}}, random_erasing]");
    ASSERT_EQ(specs.size(), 5u);
    EXPECT_EQ(specs[0], TransformSpec{});
    EXPECT_EQ(specs[1].kind, Kind::vertical_flip);
    EXPECT_EQ(specs[1].p, 0.25);
    EXPECT_EQ(specs[2].kind, Kind::random_crop);
    EXPECT_EQ(specs[2].height, 32);
    EXPECT_EQ(specs[2].width, 32);
    EXPECT_EQ(specs[2].padding, 4);
    EXPECT_EQ(specs[3].kind, Kind::center_crop);
    EXPECT_EQ(specs[3].height, 24);
    EXPECT_EQ(specs[3].width, 28);
    EXPECT_EQ(specs[4].kind, Kind::random_erasing);
    EXPECT_EQ(specs[4].p, 0.5);
    EXPECT_EQ(specs[4].scale, (std::array{0.02, 0.33}));
    EXPECT_EQ(specs[4].ratio, (std::array{0.3, 3.3}));
    EXPECT_EQ(specs[4].value, 0);
}

TEST(ConfigTransforms, a_multi_scale_crop_has_a_size_and_scales) {
    const auto specs = transforms_of(
        "[{multi_scale_crop: {size: 224}}, {multi_scale_crop: {size: [96, 128], scales: [1, 0.5]}}]");
    EXPECT_EQ(to_text(specs[0]), "{multi_scale_crop: {size: 224, scales: [1, 0.875, 0.75, 0.66]}}");
    EXPECT_EQ(specs[1].kind, Kind::multi_scale_crop);
    EXPECT_EQ(specs[1].height, 96);
    EXPECT_EQ(specs[1].width, 128);
    EXPECT_EQ(specs[1].scales, (std::vector{1, 0.5}));
    EXPECT_EQ(transforms_of("[" + to_text(specs[1]) + "]")[0], specs[1]);
    EXPECT_EQ(override_refusal("data.transforms=[multi_scale_crop]"),
              "data.transforms[0]: multi_scale_crop has no size; write {multi_scale_crop: {size: 32}}");
    EXPECT_EQ(
        override_refusal("data.transforms=[{multi_scale_crop: {size: 4, scales: []}}]"),
        "data.transforms[0].multi_scale_crop.scales: the list is empty; give at least one scale, as in [1]");
    EXPECT_EQ(override_refusal("data.transforms=[{multi_scale_crop: {size: 4, scales: [1, 1.1]}}]"),
              "data.transforms[0].multi_scale_crop.scales[1]: 1.1 is not a number above 0 and up to 1");
    EXPECT_EQ(override_refusal("data.transforms=[{multi_scale_crop: {size: 4, scales: [0]}}]"),
              "data.transforms[0].multi_scale_crop.scales[0]: 0 is not a number above 0 and up to 1");
    EXPECT_EQ(
        override_refusal("data.transforms=[{multi_scale_crop: {size: 4, scale: [1]}}]"),
        "data.transforms[0].multi_scale_crop: scale is not a parameter of multi_scale_crop; did you mean "
        "scales?");
}

TEST(ConfigTransforms, of_the_dump_are_read_back) {
    const Config config = parse(
        "data: {transforms: [horizontal_flip, {random_crop: {padding: 2, size: [3, 5]}}, "
        "{random_erasing: {p: 1, scale: [0.1, 0.2], ratio: [1, 2], value: 0.5}}]}");
    EXPECT_EQ(parse(to_yaml(config)), config);
    EXPECT_EQ(to_text(config.data.transforms[1]), "{random_crop: {size: [3, 5], padding: 2}}");
    EXPECT_TRUE(parse("data: {transforms: null}").data.transforms.empty());
}

TEST(ConfigTransforms, a_random_resized_crop_has_torchvisions_defaults) {
    const auto specs = transforms_of(
        "[{random_resized_crop: {size: 224}}, {random_resized_crop: {size: [2, 4], scale: [0.5, 0.9], ratio: "
        "[1, 2], center: 1}}]");
    EXPECT_EQ(specs[0].kind, Kind::random_resized_crop);
    EXPECT_EQ(specs[0].scale, (std::array<double, 2>{0.08, 1}));
    EXPECT_EQ(specs[0].ratio, (std::array<double, 2>{3.0 / 4, 4.0 / 3}));
    EXPECT_EQ(specs[0].center, 0.875);
    EXPECT_EQ(to_text(specs[1]),
              "{random_resized_crop: {size: [2, 4], scale: [0.5, 0.9], ratio: [1, 2], center: 1}}");
    EXPECT_EQ(override_refusal("data.transforms=[{random_resized_crop: {size: 4, center: 0}}]"),
              "data.transforms[0].random_resized_crop.center: 0 is not a number above 0 and up to 1");
    // What it prints is read as the same.
    EXPECT_EQ(transforms_of("[" + to_text(specs[0]) + "]").front(), specs[0]);
}

TEST(ConfigTransforms, that_do_not_exist_are_refused_with_the_nearest_name) {
    EXPECT_EQ(override_refusal("data.transforms=[horizontal_flp]"),
              "data.transforms[0]: horizontal_flp is not a transform; did you mean horizontal_flip?");
    EXPECT_EQ(override_refusal("data.transforms=[horizontal_flip, {crop: {size: 4}}]"),
              "data.transforms[1]: crop is not a transform; use one of horizontal_flip, vertical_flip, "
              "random_crop, center_crop, multi_scale_crop, random_resized_crop, random_erasing");
    EXPECT_EQ(override_refusal("data.transforms=[{random_crop: {sise: 4}}]"),
              "data.transforms[0].random_crop: sise is not a parameter of random_crop; did you mean size?");
    EXPECT_EQ(refusal("data:\n  transforms: [{horizontal_flip: {padding: 4}}]"),
              "jobs/x.yaml:2: data.transforms[0].horizontal_flip: padding is not a parameter of "
              "horizontal_flip; use one of p");
}

TEST(ConfigTransforms, refuse_impossible_values) {
    EXPECT_EQ(override_refusal("data.transforms=horizontal_flip"),
              "data.transforms: horizontal_flip is not a list of transforms; write [horizontal_flip], in "
              "brackets");
    EXPECT_EQ(override_refusal("data.transforms=[{horizontal_flip: {p: 1.5}}]"),
              "data.transforms[0].horizontal_flip.p: 1.5 is not a number of at least 0 and up to 1");
    EXPECT_EQ(override_refusal("data.transforms=[random_crop]"),
              "data.transforms[0]: random_crop has no size; write {random_crop: {size: 32}}");
    EXPECT_EQ(override_refusal("data.transforms=[{random_crop: {size: 0}}]"),
              "data.transforms[0].random_crop.size: 0 is not an integer of at least 1");
    EXPECT_EQ(override_refusal("data.transforms=[{center_crop: {size: [1, 2, 3]}}]"),
              "data.transforms[0].center_crop.size: a list is not a side in pixels or [height, width]");
    EXPECT_EQ(override_refusal("data.transforms=[{random_crop: {size: 4, padding: -1}}]"),
              "data.transforms[0].random_crop.padding: -1 is not an integer of at least 0");
    EXPECT_EQ(override_refusal("data.transforms=[{random_crop: {size: 4, size: 5}}]"),
              "data.transforms[0].random_crop.size: given twice; keep one of them");
    EXPECT_EQ(override_refusal("data.transforms=[{random_erasing: {scale: [0.5, 0.1]}}]"),
              "data.transforms[0].random_erasing.scale: 0.5 is above 0.1; write the smaller number first");
    EXPECT_EQ(override_refusal("data.transforms=[{horizontal_flip: 0.5}]"),
              "data.transforms[0].horizontal_flip: 0.5 is not a map of its parameters: p");
    EXPECT_EQ(override_refusal("data.transforms=[[horizontal_flip]]"),
              "data.transforms[0]: a list does not name one transform; write an entry as horizontal_flip or "
              "as {random_crop: {size: 32, padding: 4}}");
}

TEST(ConfigTransforms, change_the_course_of_a_training) {
    EXPECT_EQ(course_differences(parse(""), parse("data: {transforms: [{horizontal_flip: {p: 1}}]}")),
              (std::vector<std::string>{"data.transforms: [] -> [{horizontal_flip: {p: 1}}]"}));
}

}  // namespace
}  // namespace tutti
