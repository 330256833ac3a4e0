#include "epoch_row.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tutti::test {
namespace {

TEST(EpochRow, HasWhatCounts) {
    EpochSummary summary{.epoch = 2, .step = 40, .samples = 640, .loss = 0.5, .seconds = 1.5, .time = 1e9};
    EXPECT_EQ(epoch_row(summary),
              R"({"epoch": 2, "step": 40, "samples": 640, "train_loss": 0.5, "seconds": 1.500000, )"
              R"("time": 1000000000.000})");
    summary.accuracy = 0.25;
    summary.skipped = 3;
    summary.unreadable = 4;
    summary.loss = std::nan("");
    EXPECT_EQ(epoch_row(summary),
              R"({"epoch": 2, "step": 40, "samples": 640, "train_loss": null, "train_accuracy": 0.25, )"
              R"("skipped": 3, "unreadable": 4, "seconds": 1.500000, "time": 1000000000.000})");
}

}  // namespace
}  // namespace tutti::test
