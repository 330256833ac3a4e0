#include "tutti/train/evaluation_result.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tutti/base/config.hpp"

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

/// Of two samples with two targets: differences of (3, 4) and (0, −1).
EvaluationResult example_of_targets() {
    EvaluationResult result;
    result.loss = 6;
    result.weight = 2;
    result.targets = 2;
    result.errors = {8, 26, 6};
    return result;
}

TEST(EvaluationResult, HasTheMetricsOfTargetsByName) {
    const EvaluationResult result = example_of_targets();
    EXPECT_EQ(result.mae(), 2.0);
    EXPECT_NEAR(result.rmse(), std::sqrt(6.5), 1e-15);
    EXPECT_EQ(result.distance(), 3.0);
    EXPECT_EQ(result.metric("val/loss"), 3.0);
    EXPECT_EQ(result.metric("val/mae"), result.mae());
    EXPECT_EQ(result.metric("val/rmse"), result.rmse());
    EXPECT_EQ(result.metric("val/distance"), result.distance());
}

TEST(EvaluationResult, TextHasTheDistanceWhereASampleHasSeveralTargets) {
    EvaluationResult result = example_of_targets();
    EXPECT_EQ(score_text(result), "rmse 2.5495, mae 2.0000, distance 3.0000 (2 samples)");
    result.targets = 1;
    EXPECT_EQ(score_text(result), "rmse 3.6056, mae 4.0000 (2 samples)");
    EXPECT_EQ(score_text(example_result()), "accuracy 0.6000 (6 of 10)");
}

TEST(EvaluationResult, BalancedAccuracyLeavesOutClassesWithoutSamples) {
    EvaluationResult result = example_result();
    result.of_label = {4, 0, 0, 0};
    EXPECT_EQ(result.balanced_accuracy(), 1.0);
}

TEST(EvaluationResult, DetectionIsOfClassOne) {
    EvaluationResult result;
    result.of_label = {9, 4};
    EXPECT_FALSE(result.detection()) << "not counted";
    result.confusion = {7, 2, 1, 3};
    EXPECT_EQ(result.detection()->probability, 0.75);
    EXPECT_EQ(result.detection()->false_alarm_ratio, 0.4);
    result.of_label = {9, 6};
    EXPECT_EQ(result.detection()->probability, 0.5) << "the outputs of two are not finite";
    EXPECT_EQ(result.detection()->false_alarm_ratio, 0.4);
    EXPECT_NEAR(result.detection()->f1, 6.0 / 11, 1e-15);
    result.of_label = {9, 0};
    result.confusion = {9, 0, 0, 0};
    EXPECT_EQ(result.detection()->probability, 0.0);
    EXPECT_EQ(result.detection()->false_alarm_ratio, 0.0);
    EXPECT_EQ(result.detection()->f1, 0.0);
    EXPECT_FALSE(example_result().detection()) << "not counted";
}

TEST(EvaluationResult, DetectionOfMoreClassesIsOfClassOneAgainstTheOthers) {
    EvaluationResult result;
    result.of_label = {10, 8, 4};
    result.confusion = {7, 2, 1, /**/ 1, 6, 1, /**/ 0, 2, 2};
    EXPECT_EQ(result.detection()->probability, 6.0 / 8);
    EXPECT_EQ(result.detection()->false_alarm_ratio, 4.0 / 10);
    EXPECT_DOUBLE_EQ(result.detection()->f1, 2 * 0.75 * 0.6 / (0.75 + 0.6));
}

TEST(EvaluationResult, OfNoSamplesIsZero) {
    EvaluationResult result;
    for (const std::int64_t targets : {0, 2}) {
        result.targets = targets;
        // Precisions of no segments and kilometres of no places are not known.
        for (const std::string name : validation_metrics) {
            if (name == "val/atiou" || name == "val/km")
                EXPECT_TRUE(std::isnan(result.metric(name)));
            else
                EXPECT_EQ(result.metric(name), 0.0) << name;
        }
    }
}

TEST(Improves, KnowsTheDirectionOfEachMetric) {
    for (const char* name : {"val/loss", "val/mae", "val/rmse", "val/distance", "val/km"}) {
        EXPECT_TRUE(improves(name, 0.4, 0.5)) << name;
        EXPECT_FALSE(improves(name, 0.5, 0.5)) << name;
        EXPECT_FALSE(improves(name, 0.6, 0.5)) << name;
    }
    for (const char* name :
         {"val/accuracy", "val/top5", "val/balanced_accuracy", "val/auprc", "val/roc_auc"}) {
        EXPECT_TRUE(improves(name, 0.6, 0.5)) << name;
        EXPECT_FALSE(improves(name, 0.5, 0.5)) << name;
        EXPECT_FALSE(improves(name, 0.4, 0.5)) << name;
    }
}

TEST(Improves, OnlyByMoreThanTheSmallestDifference) {
    EXPECT_FALSE(improves("val/accuracy", 0.75, 0.5, 0.25));
    EXPECT_TRUE(improves("val/accuracy", 0.875, 0.5, 0.25));
    for (const char* name : {"val/loss", "val/mae", "val/rmse", "val/distance"}) {
        EXPECT_FALSE(improves(name, 0.25, 0.5, 0.25)) << name;
        EXPECT_TRUE(improves(name, 0.125, 0.5, 0.25)) << name;
        EXPECT_FALSE(improves(name, std::nan(""), 0.5)) << name;
    }
    EXPECT_FALSE(improves("val/accuracy", std::nan(""), 0.5));
}

}  // namespace
}  // namespace tutti
