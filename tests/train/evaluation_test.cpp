#include "tutti/train/evaluation.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tutti {
namespace {

EvaluationResult example_result() {
    EvaluationResult result;
    result.loss = 5;
    result.weight = 10;
    result.correct = 6;
    result.topk = 5;
    result.in_topk = 9;
    result.of_label = {4, 0, 5, 1};
    result.hit_of_label = {4, 0, 2, 0};
    return result;
}

TEST(EvaluationResult, HasTheMetricsByName) {
    const EvaluationResult result = example_result();
    EXPECT_EQ(result.metric("val/loss"), 0.5);
    EXPECT_EQ(result.metric("val/accuracy"), 0.6);
    EXPECT_EQ(result.metric("val/top5"), 0.9);
    EXPECT_NEAR(result.metric("val/balanced_accuracy"), (1.0 + 0.4 + 0.0) / 3, 1e-15);
}

TEST(EvaluationResult, BalancedAccuracyLeavesOutClassesWithoutSamples) {
    EvaluationResult result = example_result();
    result.of_label = {4, 0, 0, 0};
    EXPECT_EQ(result.balanced_accuracy(), 1.0);
}

TEST(EvaluationResult, OfNoSamplesIsZero) {
    const EvaluationResult result;
    for (const char* name : validation_metrics) EXPECT_EQ(result.metric(name), 0.0) << name;
}

TEST(Improves, KnowsTheDirectionOfEachMetric) {
    EXPECT_TRUE(improves("val/loss", 0.4, 0.5));
    EXPECT_FALSE(improves("val/loss", 0.5, 0.5));
    for (const char* name : {"val/accuracy", "val/top5", "val/balanced_accuracy"}) {
        EXPECT_TRUE(improves(name, 0.6, 0.5)) << name;
        EXPECT_FALSE(improves(name, 0.5, 0.5)) << name;
        EXPECT_FALSE(improves(name, 0.4, 0.5)) << name;
    }
}

TEST(Improves, OnlyByMoreThanTheSmallestDifference) {
    EXPECT_FALSE(improves("val/accuracy", 0.75, 0.5, 0.25));
    EXPECT_TRUE(improves("val/accuracy", 0.875, 0.5, 0.25));
    EXPECT_FALSE(improves("val/loss", 0.25, 0.5, 0.25));
    EXPECT_FALSE(improves("val/accuracy", std::nan(""), 0.5));
}

}  // namespace
}  // namespace tutti
