#include "tutti/train/schedule.hpp"

#include <gtest/gtest.h>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

TEST(Schedule, TheBaseRateScalesWithTheWorldOnlyWhenAsked) {
    Config config;
    config.optim.lr = 0.1;
    EXPECT_EQ(base_learning_rate(config, 4), 0.1);
    config.train.scale_lr_by_world_size = true;
    EXPECT_EQ(base_learning_rate(config, 4), 0.4);
}

TEST(Schedule, ConstantStaysConstant) {
    for (const double epoch : {0.0, 0.5, 7.0}) EXPECT_EQ(learning_rate({}, 0.3, epoch), 0.3);
}

TEST(Schedule, AnUnknownNameIsRefused) {
    ScheduleConfig schedule;
    schedule.name = "triangle";
    EXPECT_THROW(learning_rate(schedule, 0.3, 0), UsageError);
}

}  // namespace
}  // namespace tutti
