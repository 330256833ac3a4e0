#include "tutti/train/normalisation.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

DatasetInfo data_of(std::vector<float> mean, std::vector<float> std, std::int64_t channels = 2) {
    DatasetInfo info;
    info.sample_shape = {4, 4, channels};
    info.mean = std::move(mean);
    info.std = std::move(std);
    return info;
}

DataConfig given(const Normalize& normalize) {
    DataConfig config;
    config.normalize = normalize;
    return config;
}

const Normalisation trained{{0.25F, 0.5F}, {0.1F, 2}}, none{{0, 0}, {1, 1}};

TEST(NormalisationOf, IsTheConfigsElseTheFilesElseNone) {
    const DatasetInfo plain = data_of({}, {}), own = data_of({0.25F, 0.5F}, {0.1F, 2});
    EXPECT_EQ(normalisation_of({}, plain), none);
    EXPECT_TRUE(normalisation_of({}, plain).is_none());
    EXPECT_EQ(normalisation_of({}, own), trained);
    EXPECT_FALSE(trained.is_none());
    EXPECT_EQ(normalisation_of(given({{0.1}, {0.2, 0.3}}), own), (Normalisation{{0.1F, 0.1F}, {0.2F, 0.3F}}));
    EXPECT_THROW(normalisation_of(given({{1, 2, 3}, {1}}), own), UsageError);
}

TEST(AsTrained, GivesTheTrainingsToDataThatSayNothing) {
    const DatasetInfo plain = data_of({}, {});
    EXPECT_EQ(normalisation_of(as_trained({}, trained, plain), plain), trained);
    EXPECT_EQ(as_trained({}, none, plain).normalize, std::nullopt);
}

TEST(AsTrained, LeavesWhatConfigOrFilesSay) {
    const Normalize identity{{0}, {1}};
    EXPECT_EQ(as_trained(given(identity), trained, data_of({}, {})).normalize, identity);
    EXPECT_EQ(as_trained({}, trained, data_of({0, 0}, {1, 1})).normalize, std::nullopt);
    EXPECT_EQ(as_trained({}, trained, data_of({}, {}, 3)).normalize, std::nullopt) << "other channels";
    DatasetInfo mixed = data_of({}, {});
    mixed.other_normalisation = "b.h5 says another mean and std";
    EXPECT_EQ(as_trained({}, trained, mixed).normalize, std::nullopt);
}

TEST(DoubtAboutNormalisation, IsOfDataThatSaySomethingElse) {
    EXPECT_EQ(doubt_about_normalisation({}, trained, data_of(trained.mean, trained.std)), "");
    EXPECT_EQ(doubt_about_normalisation({}, none, data_of({}, {})), "");
    EXPECT_EQ(doubt_about_normalisation({}, none, data_of({0, 0}, {1, 1})), "");
    EXPECT_EQ(
        doubt_about_normalisation({}, trained, data_of({0.25F, 0.5F}, {0.1F, 1})),
        "its own mean 0.25, 0.5, std 0.1, 1 are used, but the model was trained with mean 0.25, 0.5, std "
        "0.1, 2; set data.normalize to that, or pack the data with the same --mean and --std, or without");
    EXPECT_EQ(doubt_about_normalisation({}, none, data_of({0.5F, 0.5F}, {1, 1})),
              "its own mean 0.5, std 1 are used, but the model was trained with none; set data.normalize to "
              "{mean: [0], std: [1]}, or pack the data without --mean and --std");
}

TEST(Normalisation, OfASettingThatDiffersIsDoubted) {
    DataConfig config;
    config.normalize = Normalize{{0.5}, {0.25}};
    EXPECT_EQ(doubt_about_normalisation(config, trained, data_of(trained.mean, trained.std)),
              "data.normalize is mean 0.5, std 0.25, but the model was trained with mean 0.25, 0.5, std 0.1, "
              "2; set it to that");
    EXPECT_EQ(doubt_about_normalisation(config, none, data_of({}, {})),
              "data.normalize is mean 0.5, std 0.25, but the model was trained with none; set it to {mean: "
              "[0], std: [1]}");
    EXPECT_EQ(doubt_about_normalisation(config, {{0.5F, 0.5F}, {0.25F, 0.25F}}, data_of({}, {})), "");
}

TEST(Normalisation, OfNothingIsDoubtedOfImages) {
    DataConfig config;
    DatasetInfo images = data_of({}, {}), numbers = images;
    images.sample_shape = {8, 8, 2};
    numbers.sample_shape = {2};
    EXPECT_EQ(doubt_about_raw_images(config, images).substr(0, 36), "it is read without mean and std, and");
    EXPECT_EQ(doubt_about_raw_images(config, numbers), "");
    EXPECT_EQ(doubt_about_raw_images(config, data_of({0, 0}, {1, 1})), "");
    config.normalize = Normalize{{0}, {1}};
    EXPECT_EQ(doubt_about_raw_images(config, images), "");
}

TEST(Normalisation, IsDescribedByFewNumbers) {
    EXPECT_EQ(describe(Normalisation{{0.1307F}, {0.3081F}}), "mean 0.1307, std 0.3081");
    EXPECT_EQ(describe(Normalisation{{1, 2, 3, 4, 0}, {2, 2, 2, 2, 2}}), "mean 0 to 4, std 2");
}

TEST(Normalisation, IsTheSameNumbersAgainFromItsText) {
    const Normalisation odd{{0.1F, 1.0F / 3}, {1e-30F, 16777217.0F}};
    EXPECT_EQ(normalisation_from(to_json(odd), "x"), odd);
    EXPECT_EQ(to_json(Normalisation{{0.1307F}, {1}}), R"({"mean": [0.1307], "std": [1]})");
    EXPECT_EQ(normalisation_from("", "x"), std::nullopt);
    EXPECT_EQ(to_json(Normalisation{{0}, {INFINITY}}), "");
    for (const char* text : {"{", "[]", R"({"mean": [1]})", R"({"mean": [1, 2], "std": [1]})",
                             R"({"mean": [], "std": []})", R"({"mean": ["a"], "std": [1]})"})
        EXPECT_THROW(normalisation_from(text, "x"), DataError) << text;
}

}  // namespace
}  // namespace tutti
