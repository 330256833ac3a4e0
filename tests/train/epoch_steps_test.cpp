// How many updates an epoch of 50 samples has, from its beginning and from within.
#include <gtest/gtest.h>

#include "train_step.hpp"
#include "training_fixture.hpp"

namespace tutti {
namespace {

struct Case {
    std::vector<std::string> settings;  ///< besides train.batch_size=4
    int ranks;
    std::vector<std::int64_t> ends;  ///< positions behind the updates
};

std::ostream& operator<<(std::ostream& out, const Case& one) {
    for (const std::string& setting : one.settings) out << setting << ' ';
    return out << "on " << one.ranks;
}

TEST(EpochSteps, AreCountedAsTheyAreMade) {
    const Case cases[] = {
        {{"train.batch_size=16"}, 1, {16, 32, 48, 50}},
        {{"train.batch_size=16", "data.drop_last=true"}, 1, {16, 32, 48}},
        {{"train.accumulate=5"}, 1, {20, 40, 50}},
        {{"train.accumulate=5", "data.drop_last=true"}, 1, {20, 40, 48}},
        {{"train.accumulate=4", "data.drop_last=true"}, 1, {16, 32, 48}},
        {{"train.accumulate=3", "data.drop_last=true"}, 3, {36, 48}},
        {{"train.accumulate=3", "data.tail=pad"}, 3, {36, 51}},
        {{"train.accumulate=5", "data.drop_last=true", "run.deterministic=true"}, 1, {20, 40}},
        {{"train.accumulate=3", "data.drop_last=true", "run.deterministic=true"}, 2, {24, 48}},
    };
    for (const Case& one : cases)
        test::run_training(one.ranks, one.settings, [&one](const TrainingJob& job) {
            TrainStep training(job);
            training.initial_weights();
            training.start_epoch();
            std::int64_t left = training.steps_per_epoch();
            EXPECT_EQ(left, static_cast<std::int64_t>(one.ends.size())) << one;
            for (const std::int64_t end : one.ends) {
                ASSERT_TRUE(training.epoch_has_more()) << one << ", before " << end;
                training.update();
                EXPECT_EQ(training.progress.position, end) << one;
                EXPECT_EQ(training.steps_from(end), --left) << one << ", behind " << end;
            }
            EXPECT_FALSE(training.epoch_has_more()) << one;
        });
}

}  // namespace
}  // namespace tutti
