#include "tutti/train/asked_metrics.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

TEST(AskedMetrics, OfAnOrderAreOfTwoClasses) {
    Config config;
    const auto answer = [&](std::int64_t classes) -> std::string {
        try {
            check_metrics(config.train, classes);
        } catch (const UsageError& error) {
            return error.what();
        }
        return "accepted";
    };
    config.train.checkpoint.best = "val/auprc";
    EXPECT_EQ(answer(2), "accepted");
    EXPECT_TRUE(ranking_of(config.train, 2));
    EXPECT_EQ(answer(3),
              "train.checkpoint.best is val/auprc, which is of two classes, but the model has 3; choose "
              "val/accuracy, val/balanced_accuracy or val/loss");
    EXPECT_FALSE(ranking_of(config.train, 3));
    config.train.checkpoint.best = "val/loss";
    EXPECT_FALSE(ranking_of(config.train, 2));
    config.train.early_stopping = EarlyStoppingConfig{.metric = "val/roc_auc"};
    EXPECT_EQ(answer(4).substr(0, 44), "train.early_stopping.metric is val/roc_auc, ");
    EXPECT_TRUE(ranking_of(config.train, 2));
}

}  // namespace
}  // namespace tutti
