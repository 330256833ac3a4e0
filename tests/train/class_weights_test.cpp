#include "tutti/train/class_weights.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

using Counts = std::vector<std::int64_t>;
using Weights = std::vector<double>;

const ClassWeightsConfig balanced;

void expect_near(const Weights& weights, const Weights& expected) {
    ASSERT_EQ(weights.size(), expected.size());
    for (std::size_t k = 0; k < weights.size(); ++k) EXPECT_NEAR(weights[k], expected[k], 1e-15) << k;
}

TEST(ClassWeights, AreNoneUnlessAskedFor) {
    EXPECT_TRUE(class_weights(std::nullopt, Counts{1, 2}, 2).empty());
}

// sklearn.utils.class_weight.compute_class_weight("balanced"): N/(C n[c]).
TEST(ClassWeights, BalancedAreTheSamplesOfAClassByThoseOfTheMeanOne) {
    expect_near(class_weights(balanced, Counts{6, 4, 2}, 3), {12.0 / 18, 1, 2});
    expect_near(class_weights(balanced, Counts{5}, 1), {1});
}

TEST(ClassWeights, AClassWithoutSamplesChangesNoOther) {
    expect_near(class_weights(balanced, Counts{9, 0, 3}, 3), {12.0 / 18, 1, 2});
    // Those that the data do not know.
    expect_near(class_weights(balanced, Counts{9, 3}, 4), {12.0 / 18, 2, 1, 1});
    expect_near(class_weights(balanced, Counts{0, 0}, 2), {1, 1});
}

TEST(ClassWeights, OfAListOnlyRatiosCount) {
    for (const double factor : {1.0, 1000.0}) {
        const auto weights = class_weights(ClassWeightsConfig{{factor, 3 * factor}}, Counts{30, 10}, 2);
        expect_near(weights, {40.0 / 60, 3 * 40.0 / 60});
        EXPECT_NEAR((30 * weights[0] + 10 * weights[1]) / 40, 1, 1e-15);
    }
}

TEST(ClassWeights, ZeroLeavesAClassOutAndTheMeanIsStillOne) {
    expect_near(class_weights(ClassWeightsConfig{{1, 0, 3}}, Counts{6, 4, 2}, 3), {1, 0, 3});
    expect_near(class_weights(ClassWeightsConfig{{1, 0, 0}}, Counts{6, 4, 2}, 3), {2, 0, 0});
    // Of a class without samples, too.
    expect_near(class_weights(ClassWeightsConfig{{1, 0}}, Counts{5}, 2), {1, 0});
}

TEST(ClassWeights, WhatLeavesAllSamplesOutIsRefused) {
    try {
        class_weights(ClassWeightsConfig{{0, 0, 1}}, Counts{6, 4, 0}, 3);
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_STREQ(error.what(),
                     "train.class_weights is 0 for every class that has samples in data.train; give one of "
                     "these a weight above 0");
    }
}

TEST(ClassWeights, AListOfAnotherLengthIsRefused) {
    try {
        check_class_weights(ClassWeightsConfig{{1}}, 2);
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_STREQ(error.what(),
                     "train.class_weights has 1 number, but the model has 2 classes; give one for each "
                     "class, in the order of the labels, or balanced");
    }
    check_class_weights(balanced, 2);
    check_class_weights(std::nullopt, 2);
    check_class_weights(ClassWeightsConfig{{1, 2}}, 2);
}

TEST(ClassWeights, AreSaidOneByOneOrByTheirRange) {
    EXPECT_EQ(describe_class_weights(Weights{0.5555555, 5}), "class weights: 0.556, 5");
    EXPECT_EQ(describe_class_weights(Weights(11, 2.0)), "class weights: 2 to 2");
}

}  // namespace
}  // namespace tutti
