// train.nan_policy: skip, where no update comes any more.
#include "skipped_series.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "train_step.hpp"
#include "training_fixture.hpp"

namespace tutti {
namespace {

SkippedSeries::Update update(std::int64_t number) {
    return {.epoch = number / 4, .begin = 16 * (number % 4), .end = 16 * (number % 4 + 1), .reason = "it is"};
}

TEST(SkippedSeries, IsTooLongWithAsManyUpdatesOneAfterTheOther) {
    SkippedSeries series;
    for (std::int64_t i = 1; i < SkippedSeries::longest; ++i) {
        series.add(update(i));
        EXPECT_FALSE(series.is_too_long()) << i;
    }
    series.add(update(SkippedSeries::longest));
    EXPECT_TRUE(series.is_too_long());
    EXPECT_EQ(series.describe(),
              "100 updates one after the other were skipped (train.nan_policy: skip), from epoch 1, samples "
              "16 to 31, to epoch 26, samples 0 to 15, where it is");
}

TEST(SkippedSeries, BeginsAnewAfterAnUpdateThatWasMade) {
    SkippedSeries series;
    for (std::int64_t i = 0; i < 10 * SkippedSeries::longest; ++i) {
        if (i % SkippedSeries::longest == 0) series.end();
        series.add(update(i));
        EXPECT_EQ(series.is_too_long(), i % SkippedSeries::longest == SkippedSeries::longest - 1) << i;
    }
    EXPECT_NE(series.describe().find("from epoch 226, samples 0 to 15, to epoch 250"), std::string::npos);
}

/// An update; with `finite` false the weights before it are not.
void make_update(TrainStep& training, bool finite) {
    TensorView arena = training.graph.parameter_arena();
    const float weight = arena.span<float>()[0];
    if (!finite) arena.span<float>()[0] = NAN;
    if (!training.epoch_has_more()) {
        ++training.progress.epoch;
        training.progress.position = 0;
        training.start_epoch();
    }
    EXPECT_EQ(training.update().skipped, !finite);
    if (!finite) arena.span<float>()[0] = weight;
}

TEST(TrainStep, KeepsTheLastUpdateOfALongSeriesOfSkippedOnes) {
    using Settings = std::vector<std::string>;
    for (const Settings& more :
         {Settings{}, Settings{"train.accumulate=2"}, Settings{"optim.clip_norm=1"},
          Settings{"distributed.strategy=zero1"}, Settings{"run.deterministic=true", "run.virtual_shards=2"}})
        for (const int ranks : {1, 2}) {
            if (ranks == 1 && more == Settings{"distributed.strategy=zero1"}) continue;
            Settings settings{"train.nan_policy=skip"};
            settings.insert(settings.end(), more.begin(), more.end());
            test::run_training(ranks, settings, [&](const TrainingJob& job) {
                TrainStep training(job);
                training.initial_weights();
                training.start_epoch();
                for (const std::int64_t skipped : {SkippedSeries::longest - 1, SkippedSeries::longest}) {
                    make_update(training, true);
                    for (std::int64_t i = 0; i < skipped; ++i) {
                        EXPECT_FALSE(training.failed_step);
                        make_update(training, false);
                    }
                }
                EXPECT_TRUE(training.skipped_series.is_too_long());
                ASSERT_TRUE(training.failed_step);
                EXPECT_EQ(training.failed_step->step, 3);
                EXPECT_EQ(training.failed_step->epoch, training.progress.epoch);
                EXPECT_EQ(training.failed_step->end, training.progress.position);
                ASSERT_EQ(training.failed_step->ranks.size(), static_cast<std::size_t>(ranks));
                EXPECT_FALSE(std::isfinite(training.failed_step->ranks[0].loss));
            });
        }
}

}  // namespace
}  // namespace tutti
