// --mean and --std of the packers.
#include "input/pack_normalisation.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "pack_helpers.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

class Normalisation : public test::Pack {
  protected:
    static DatasetInfo put(const std::vector<float>& mean, const std::vector<float>& std, const Shape& sample,
                           std::int64_t frames = 1) {
        DatasetInfo info;
        info.dtype = sample.rank() == 1 ? DType::f32 : DType::u8;
        info.sample_shape = sample;
        PackNormalisation(mean, std).put_into(info, frames);
        return info;
    }
};

TEST_F(Normalisation, OneNumberIsForAllChannels) {
    EXPECT_EQ(put({0.5F}, {0.25F}, {2, 2, 3}).mean, (std::vector{0.5F, 0.5F, 0.5F}));
    EXPECT_EQ(put({0.5F}, {0.25F}, {2, 2, 3}).std, (std::vector{0.25F, 0.25F, 0.25F}));
    EXPECT_TRUE(put({}, {}, {2, 2, 3}).mean.empty());
}

TEST_F(Normalisation, NumbersOfAFrameAreForEach) {
    EXPECT_EQ(put({1, 2}, {3, 4}, {2, 2, 4}, 2).mean, (std::vector<float>{1, 2, 1, 2}));
    EXPECT_EQ(put({1, 2, 3, 4}, {5, 6, 7, 8}, {2, 2, 4}, 2).std, (std::vector<float>{5, 6, 7, 8}));
}

TEST_F(Normalisation, AnotherNumberIsRefused) {
    EXPECT_EQ(
        refusal([] {
            put({1, 2}, {1, 1}, {4});
        }),
        "2 --mean and --std have 2 numbers, but samples have 4 features; give one number, or 4 of each");
    EXPECT_EQ(
        refusal([] {
            put({1, 2}, {1, 1}, {5, 5, 3});
        }),
        "2 --mean and --std have 2 numbers, but samples have 3 channels; give one number, or 3 of each");
}

TEST_F(Normalisation, WhatCannotDivideIsRefused) {
    EXPECT_EQ(refusal([] {
                  PackNormalisation({1, 2}, {1});
              }),
              "2 --mean has 2 numbers, --std 1; give as many of both");
    EXPECT_EQ(refusal([] {
                  PackNormalisation({1, 2}, {1, 0});
              }),
              "2 --std must be greater than 0, but has 0; give 1 where nothing shall be divided");
    EXPECT_EQ(refusal([] { PackNormalisation({std::numeric_limits<float>::quiet_NaN()}, {1}); }),
              "2 --mean and --std must be finite numbers; give a number for each channel");
}

TEST_F(Normalisation, IsCheckedBeforeRowsAreRead) {
    PackCsvOptions options;
    write("in.csv", "a,b,y\n1,2,0\nno,number,1\n");
    options.csv = at("in.csv");
    options.label = "y";
    options.output = at("out.h5");
    options.mean = options.std = {1, 2, 3};
    EXPECT_EQ(
        refusal([&] { pack_csv(options); }),
        "2 --mean and --std have 3 numbers, but samples have 2 features; give one number, or 2 of each");
    EXPECT_FALSE(std::filesystem::exists(options.output));
}

}  // namespace
}  // namespace tutti
