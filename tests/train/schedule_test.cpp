#include "tutti/train/schedule.hpp"

#include <gtest/gtest.h>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

TEST(Schedule, TheBaseRateScalesWithTheWorldOnlyWhenAsked) {
    Config config;
    config.optim.lr = 0.1;
    config.schedule.min_lr = 0.01;
    EXPECT_EQ(scaled_rates(config, 4).base, 0.1);
    EXPECT_EQ(scaled_rates(config, 4).schedule, config.schedule);
    config.train.scale_lr_by_world_size = true;
    EXPECT_EQ(scaled_rates(config, 4).base, 0.4);
    EXPECT_EQ(scaled_rates(config, 4).schedule, config.schedule);
}

TEST(Schedule, RatesForSoManySamplesScaleWithTheSamplesOfAnUpdate) {
    Config config;
    config.optim.lr = 1e-3;
    config.schedule.min_lr = 1e-6;
    config.schedule.warmup_lr = 1e-8;
    config.train.batch_size = 6;
    config.train.accumulate = 2;
    config.train.scale_lr_by_batch = 256;
    const ScaledRates rates = scaled_rates(config, 16);
    EXPECT_DOUBLE_EQ(rates.base, 1e-3 * 192 / 256);
    EXPECT_DOUBLE_EQ(rates.schedule.min_lr, 1e-6 * 192 / 256);
    EXPECT_DOUBLE_EQ(rates.schedule.warmup_lr, 1e-8 * 192 / 256);
    config.schedule.name = "cosine";
    config.optim.lr = 1e-7;  // both are scaled alike
    EXPECT_NE(doubt_about_rates(config, 16).find("more than optim.lr x 192 / 256 samples = 7.5e-08"),
              std::string::npos)
        << doubt_about_rates(config, 16);
}

TEST(Schedule, UpdateKOfKStandsAtThatPartOfTheEpoch) {
    EXPECT_EQ(epoch_of_update(0, 0, 16, 8), 0.0);
    EXPECT_EQ(epoch_of_update(0, 16, 16, 8), 0.125);
    EXPECT_EQ(epoch_of_update(3, 112, 16, 8), 3.875);
    // 100 samples in batches of 16: the seventh update is the last, whatever it holds.
    EXPECT_EQ(epoch_of_update(1, 96, 16, 7), 1 + 6.0 / 7);
    // After a resume with another global batch, updates begin in between.
    EXPECT_EQ(epoch_of_update(0, 24, 16, 8), 1.5 / 8);
}

/// The rates of a whole run, with the base rate of the table, 0.5.
std::vector<double> rates(const ScheduleConfig& schedule, std::int64_t epochs,
                          std::int64_t updates_per_epoch) {
    std::vector<double> result;
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch)
        for (std::int64_t k = 0; k < updates_per_epoch; ++k)
            result.push_back(
                learning_rate(schedule, 0.5, epoch_of_update(epoch, k * 8, 8, updates_per_epoch), epochs));
    return result;
}

void expect_rates(const std::vector<double>& found, const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], expected[i], 1e-15) << "update " << i;
}

TEST(Schedule, ConstantStaysConstant) {
    for (const double epoch : {0.0, 0.5, 7.0}) EXPECT_EQ(learning_rate({}, 0.3, epoch, 8), 0.3);
}

// The numbers below were made with torch.optim.lr_scheduler: tests/parity/make_recipe_numbers.py.

TEST(Schedule, StepIsPyTorchsStepLR) {
    expect_rates(rates({.name = "step", .step_size = 2, .gamma = 0.1}, 5, 3),
                 {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.005, 0.005, 0.005});
}

TEST(Schedule, MultiStepIsPyTorchsMultiStepLR) {
    expect_rates(rates({.name = "multi_step", .gamma = 0.1, .milestones = {1, 3}}, 5, 2),
                 {0.5, 0.5, 0.05, 0.05, 0.05, 0.05, 0.005, 0.005, 0.005, 0.005});
    // Epochs count from the beginning of the run, as with step.
    expect_rates(
        rates({.name = "multi_step", .warmup_epochs = 1.5, .gamma = 0.5, .milestones = {1, 2}}, 3, 2),
        {0, 0.5 / 3, 1.0 / 3, 0.25, 0.125, 0.125});
}

TEST(Schedule, LinearIsPyTorchsLinearLRDownToItsEnd) {
    const std::vector<double> expected{0.5, 0.46, 0.42, 0.38, 0.34, 0.3, 0.26, 0.22, 0.18, 0.14, 0.1, 0.06};
    expect_rates(rates({.name = "linear", .min_lr = 0.02}, 3, 4), expected);
    expect_rates(rates({.name = "linear", .min_lr = 0.02}, 1, 12), expected);
    expect_rates(rates({.name = "linear", .warmup_epochs = 1, .warmup_lr = 0.1}, 3, 2),
                 {0.1, 0.3, 0.5, 0.375, 0.25, 0.125});
    EXPECT_EQ(learning_rate({.name = "linear", .min_lr = 0.02}, 0.5, 7.5, 3), 0.02);
    EXPECT_EQ(learning_rate({.name = "linear"}, 0.5, 3, 3), 0);
}

TEST(Schedule, CosineIsPyTorchsCosineAnnealingLR) {
    const std::vector<double> expected{0.5,
                                       0.49182219830937635,
                                       0.4678460969082653,
                                       0.42970562748477137,
                                       0.38,
                                       0.322116570824605,
                                       0.26,
                                       0.19788342917539506,
                                       0.14000000000000007,
                                       0.09029437251522862,
                                       0.05215390309173472,
                                       0.028177801690623634};
    expect_rates(rates({.name = "cosine", .min_lr = 0.02}, 3, 4), expected);
    expect_rates(rates({.name = "cosine", .min_lr = 0.02}, 1, 12), expected);
}

TEST(Schedule, LinearWarmUpIsPyTorchsLinearLR) {
    expect_rates(rates({.warmup_epochs = 1.5, .warmup_lr = 0.05}, 2, 4),
                 {0.05, 0.125, 0.2, 0.275, 0.35, 0.425, 0.5, 0.5});
}

TEST(Schedule, CosineBeginsAfterTheWarmUp) {
    expect_rates(rates({.name = "cosine", .warmup_epochs = 1, .warmup_lr = 0.05}, 3, 4),
                 {0.05, 0.1625, 0.275, 0.3875, 0.5, 0.4809698831278217, 0.42677669529663687,
                  0.34567085809127246, 0.25, 0.15432914190872757, 0.07322330470336313, 0.01903011687217832});
}

TEST(Schedule, PowerLawWarmUpRisesWithThePowerOfTheTime) {
    expect_rates(rates({.warmup_epochs = 1, .warmup = WarmUp::power, .warmup_power = 3}, 1, 4),
                 {0, 0.5 / 64, 0.5 * 8 / 64, 0.5 * 27 / 64});
    expect_rates(
        rates({.warmup_epochs = 2, .warmup_lr = 0.1, .warmup = WarmUp::power, .warmup_power = 2}, 1, 2),
        {0.1, 0.1 + 0.4 / 16});
}

TEST(Schedule, StepsCountFromTheBeginningOfTheRunAlsoAfterAWarmUp) {
    expect_rates(rates({.name = "step", .warmup_epochs = 1, .step_size = 2, .gamma = 0.1}, 4, 2),
                 {0, 0.25, 0.5, 0.5, 0.05, 0.05, 0.05, 0.05});
}

TEST(Schedule, BeyondTheLastEpochCosineStaysAtItsEnd) {
    EXPECT_EQ(learning_rate({.name = "cosine", .min_lr = 0.02}, 0.5, 7.5, 3), 0.02);
    EXPECT_EQ(learning_rate({.name = "cosine", .warmup_epochs = 3, .min_lr = 0.02}, 0.5, 3, 3), 0.02);
}

TEST(Schedule, AnUnknownNameIsRefused) {
    ScheduleConfig schedule;
    schedule.name = "triangle";
    EXPECT_THROW(learning_rate(schedule, 0.3, 0, 1), UsageError);
}

TEST(Schedule, ARunEndsByItsEpochsOrItsStepsWhicheverComeFirst) {
    TrainConfig train;
    train.epochs = 3;
    EXPECT_EQ(updates_of_run(train, 10, {}), 30);
    train.max_steps = 20;
    EXPECT_EQ(updates_of_run(train, 10, {}), 20);
    train.max_steps = 99;
    EXPECT_EQ(updates_of_run(train, 10, {}), 30);
    EXPECT_EQ(updates_of_run(train, 10, {.updates = 40, .epochs = 2.5}), 45);
}

TEST(Schedule, RatesThatRiseInsteadOfFallAreDoubted) {
    Config config;
    config.optim.lr = 0.05;
    config.schedule = {.name = "cosine", .min_lr = 0.05};
    EXPECT_EQ(doubt_about_rates(config, 1), "");
    config.schedule.min_lr = 1;
    EXPECT_EQ(doubt_about_rates(config, 1),
              "schedule.min_lr is 1, more than optim.lr, 0.05: the learning rate rises to it; set "
              "schedule.min_lr to less");
    config.train.scale_lr_by_world_size = true;
    EXPECT_EQ(doubt_about_rates(config, 20), "");
    config.schedule = {.warmup_epochs = 0.5, .warmup_lr = 10};
    EXPECT_EQ(doubt_about_rates(config, 2),
              "schedule.warmup_lr is 10, more than optim.lr x 2 ranks = 0.1: the warm-up falls; set "
              "schedule.warmup_lr to less");
    config.schedule.warmup_epochs = 0;
    EXPECT_EQ(doubt_about_rates(config, 2), "");
    config.schedule = {.name = "linear", .min_lr = 1};
    EXPECT_EQ(doubt_about_rates(config, 2),
              "schedule.min_lr is 1, more than optim.lr x 2 ranks = 0.1: the learning rate rises to it; set "
              "schedule.min_lr to less");
}

TEST(Schedule, StepsBehindTheLastEpochAreDoubted) {
    Config config;
    config.train.epochs = 60;
    config.schedule = {.name = "multi_step", .milestones = {30, 59}};
    EXPECT_EQ(doubt_about_rates(config, 1), "");
    config.schedule.milestones = {30, 60, 80};
    EXPECT_EQ(
        doubt_about_rates(config, 1),
        "schedule.milestones has 80, but the run ends after 60 epochs (train.epochs): no update comes behind "
        "that step; train longer, or leave it out");
}

TEST(Schedule, AWarmUpThatTheRunDoesNotReachTheEndOfIsDoubted) {
    Config config;
    config.optim.lr = 0.2;
    config.train.epochs = 3;
    config.schedule.warmup_epochs = 3;
    EXPECT_EQ(doubt_about_warmup(config, 1, 10), "");
    config.schedule.warmup_epochs = 6;  // the last of 30 updates stands at 2.9 of 6 epochs
    EXPECT_EQ(
        doubt_about_warmup(config, 1, 10),
        "schedule.warmup_epochs is 6, but the run ends after 3 epochs (train.epochs): the learning rate "
        "never reaches optim.lr, 0.2, its last update has 0.09667; set schedule.warmup_epochs to at most "
        "3, or train longer");
    config.train.epochs = 1;
    config.train.scale_lr_by_world_size = true;  // 0.9 of 6 epochs
    EXPECT_EQ(doubt_about_warmup(config, 4, 10),
              "schedule.warmup_epochs is 6, but the run ends after 1 epoch (train.epochs): the learning rate "
              "never reaches optim.lr x 4 ranks = 0.8, its last update has 0.12; set schedule.warmup_epochs "
              "to at most 1, or train longer");
    EXPECT_EQ(doubt_about_warmup(config, 4, 10, {.updates = 400, .epochs = 0.9}).substr(0, 69),
              "schedule.warmup_epochs is 6, but the run ends after 1 epoch (train.ep");
    config.train.max_steps = 440;
    config.train.epochs = 9;  // 4 epochs from 3.5 on
    EXPECT_EQ(doubt_about_warmup(config, 4, 10, {.updates = 400, .epochs = 3.5}), "");
    config.train.max_steps.reset();
    config.schedule.warmup_lr = 0.8;
    config.train.epochs = 1;
    EXPECT_EQ(doubt_about_warmup(config, 4, 10), "") << "it is the rate that is warmed up to";
}

TEST(Schedule, AWarmUpIsMeasuredAgainstTheUpdatesThatEndTheRunFirst) {
    Config config;
    config.optim.lr = 1;
    config.train.epochs = 8;
    config.schedule.warmup_epochs = 0.5;
    config.schedule.warmup = WarmUp::power;
    EXPECT_EQ(doubt_about_warmup(config, 1, 12), "");
    config.train.max_steps = 6;
    EXPECT_EQ(doubt_about_warmup(config, 1, 12), "");
    config.train.max_steps = 4;  // the last one at 3/12 of an epoch, half of the warm-up: 0.5²
    EXPECT_EQ(doubt_about_warmup(config, 1, 12),
              "schedule.warmup_epochs is 0.5, but the run ends after 4 updates, 0.333 epochs "
              "(train.max_steps): the learning rate never reaches optim.lr, 1, its last update has 0.25; set "
              "schedule.warmup_epochs to at most 0.333, or train longer");
    config.train.max_steps = 1000;
    EXPECT_EQ(doubt_about_warmup(config, 1, 12), "") << "8 epochs end it before";
}

}  // namespace
}  // namespace tutti
