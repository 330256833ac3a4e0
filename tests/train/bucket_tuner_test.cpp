// The choice of buckets by measurement, with ranks as threads.
#include "bucket_tuner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "training_fixture.hpp"

namespace tutti {
namespace {

/// Trains until the tuner has chosen; the number of updates that took.
std::size_t tune(TrainStep& training, BucketTuner& tuner) {
    for (std::size_t updates = 1; updates < 400; ++updates) {
        while (!training.epoch_has_more()) {
            ++training.progress.epoch;
            training.progress.position = 0;
            training.start_epoch();
        }
        tuner.before_update();
        if (tuner.after_update(training.update())) return updates;
    }
    return 0;
}

TEST(MeasureAllReduce, KnowsWhatATransferOfOneElementTakesHoweverSmallTheModelIs) {
    test::run_training(2, {"model.hidden=[]"}, [](const TrainingJob& job) {
        TrainStep training(job);
        ASSERT_LT(training.graph.gradient_arena().bytes(), 4096u);
        const CostModel cost = measure_all_reduce(job.gradients, job.control, training.arena_ops,
                                                  training.graph.gradient_arena());
        EXPECT_GT(cost.residuals().size(), 1u);
    });
}

class BucketTunerRanks : public ::testing::TestWithParam<int> {};

TEST_P(BucketTunerRanks, AllRanksGetThePlanOfOneTrial) {
    std::mutex mutex;
    std::vector<std::vector<std::size_t>> chosen;
    test::run_training(GetParam(), {"distributed.bucket_policy=auto"}, [&](const TrainingJob& job) {
        TrainStep training(job);
        training.initial_weights();
        StepRecorder recorder(training.graph, 1);
        training.record(&recorder);
        BucketTuner tuner(training, recorder);
        ASSERT_GT(tune(training, tuner), 6u);
        const BucketProfile& result = tuner.result();
        for (const BucketTrial& trial : result.trials) {
            EXPECT_GT(trial.step, 0) << trial.name;
            // The tables of the plans: no plan twice.
            for (const BucketTrial& other : result.trials)
                EXPECT_EQ(trial.sends_alike(other), &trial == &other);
        }
        // What goes in pieces was measured against the same buckets in whole transfers.
        const auto cut = std::ranges::find_if(result.trials, &BucketTrial::in_pieces);
        if (cut != result.trials.end()) {
            EXPECT_TRUE(std::ranges::any_of(result.trials, [&](const BucketTrial& trial) {
                return trial.ends == cut->ends && !trial.in_pieces();
            }));
        }
        EXPECT_TRUE(std::ranges::any_of(result.trials, [&](const BucketTrial& trial) {
            return trial.sends_alike(result.chosen) && trial.step == result.chosen.step;
        }));
        EXPECT_EQ(result.ready.size(), training.graph.parameters().size());
        EXPECT_TRUE(std::is_sorted(result.ready.begin(), result.ready.end()));
        EXPECT_GE(result.backward_end, result.ready.back());
        EXPECT_EQ(training.reducer.buckets(),
                  plan_from_ends(parameter_slices(training.graph), result.chosen.ends));
        const std::lock_guard lock(mutex);
        chosen.push_back(result.chosen.ends);
    });
    for (const auto& ends : chosen) EXPECT_EQ(ends, chosen.front());
}

TEST_P(BucketTunerRanks, CostModelPlansWithoutTrials) {
    // Between ranks that are threads either schedule may be the better one, which has a plan of its own.
    const std::vector<std::string> settings{"distributed.bucket_policy=cost_model",
                                            "distributed.across_steps=false"};
    test::run_training(GetParam(), settings, [](const TrainingJob& job) {
        TrainStep training(job);
        training.initial_weights();
        StepRecorder recorder(training.graph, 1);
        training.record(&recorder);
        BucketTuner tuner(training, recorder);
        tune(training, tuner);
        const BucketProfile& result = tuner.result();
        ASSERT_EQ(result.trials.size(), 1u);
        EXPECT_EQ(result.chosen.name, "cost_model");
        const BucketTiming timing{result.ready, result.cost, 4};
        EXPECT_EQ(training.reducer.buckets(),
                  plan_by_cost(parameter_slices(training.graph), layer_ends(training.graph), timing));
    });
}

/// On rank 0, after `updates`: what was trained. Without an own margin: with fixed buckets, within steps.
std::vector<NamedTensor> trained(int ranks, std::size_t updates, std::optional<double> clearly_worse,
                                 BucketProfile* profile = nullptr, std::size_t looked_at = 0) {
    std::vector<NamedTensor> model;
    const std::string policy = clearly_worse ? "auto" : "per_layer";
    test::run_training(
        ranks,
        {"optim.name=adam", "optim.lr=0.01", "train.ema=0.9", "distributed.bucket_policy=" + policy,
         clearly_worse ? "distributed.across_steps=auto" : "distributed.across_steps=false"},
        [&](const TrainingJob& job) {
            TrainStep training(job);
            training.initial_weights();
            StepRecorder recorder(training.graph, 1);
            training.record(&recorder);
            std::optional<BucketTuner> tuner;
            if (clearly_worse) tuner.emplace(training, recorder, *clearly_worse);
            for (std::size_t update = 0; update < updates; ++update) {
                while (!training.epoch_has_more()) {
                    ++training.progress.epoch;
                    training.progress.position = 0;
                    training.start_epoch();
                }
                if (tuner) tuner->before_update();
                const UpdateReport report = training.update();
                // As evaluations and checkpoints do.
                if (looked_at > 0 && update % looked_at == 0) training.graph.save();
                if (!tuner || !tuner->after_update(report)) continue;
                EXPECT_EQ(training.spreads_across_steps(), tuner->result().chosen.across_steps());
                EXPECT_EQ(tuner->represents_runs(), looked_at != 1);
                if (profile && job.control.rank() == 0) *profile = tuner->result();
                tuner.reset();
            }
            EXPECT_FALSE(tuner) << "too few updates to choose";
            auto saved = training.graph.save();
            if (job.control.rank() == 0) model = std::move(saved);
        });
    return model;
}

TEST_P(BucketTunerRanks, TriesBothSchedulesWithoutChangingABit) {
    constexpr std::size_t updates = 220;
    const std::vector<NamedTensor> wanted = trained(GetParam(), updates, std::nullopt);
    // Undisturbed, and now and then between the steps of a turn.
    for (const std::size_t looked_at : {0u, 3u}) {
        SCOPED_TRACE(looked_at);
        BucketProfile profile;
        const auto model = trained(GetParam(), updates, 1.0, &profile, looked_at);
        for (const bool across : {false, true})
            EXPECT_TRUE(std::ranges::any_of(profile.trials, [&](const BucketTrial& trial) {
                return trial.across_steps() == across && trial.step > 0;
            })) << across;
        ASSERT_EQ(model.size(), wanted.size());
        for (std::size_t t = 0; t < model.size(); ++t) EXPECT_EQ(model[t].bytes, wanted[t].bytes);
    }
}

TEST_P(BucketTunerRanks, DoesNotChooseAScheduleWhoseTransfersItNeverSaw) {
    BucketProfile profile;
    trained(GetParam(), 440, 1.0, &profile, 1);
    EXPECT_FALSE(profile.chosen.across_steps());
    EXPECT_TRUE(std::ranges::any_of(profile.trials, &BucketTrial::across_steps));
    for (const BucketTrial& trial : profile.trials) EXPECT_EQ(trial.step > 0, !trial.across_steps());
}

INSTANTIATE_TEST_SUITE_P(Ranks, BucketTunerRanks, ::testing::Values(2, 3, 4));

TEST(AgreeOnReadyTimes, TakesTheMedianOfStepsAndTheSlowestRank) {
    test::run_on_threads(2, [](Communicator& communicator) {
        const double late = communicator.rank() == 0 ? 0 : 2;
        const std::vector<ReadyTimes> steps{{{1, 4 - late}, 9}, {{2 + late, 4}, 5}, {{3 + late, 40}, 7}};
        const ReadyTimes agreed = agree_on_ready_times(communicator, steps);
        EXPECT_EQ(agreed.ready, (std::vector<double>{4, 4}));
        EXPECT_EQ(agreed.backward_end, 7);
    });
}

TEST(DescribeChoice, SaysTheSchedulesWhereBothWereTried) {
    BucketProfile profile;
    profile.cost = CostModel({{.from_bytes = 0, .alpha = 1e-3, .seconds_per_byte = 0}});
    profile.trials = {{"cost_model", {0}, 0.05, 0.052, {0}}, {"cost_model", {0}, 0.01, 0.0509}};
    profile.chosen = profile.trials[1];
    const std::vector<Bucket> buckets{{.count = 262144}};
    EXPECT_TRUE(describe_choice(profile, buckets, 4)
                    .starts_with("buckets: cost_model within steps, 1 bucket of 1 MiB; a step takes 50.9 ms, "
                                 "with cost_model across steps 52 ms; "));
    profile.trials.erase(profile.trials.begin());
    EXPECT_TRUE(describe_choice(profile, buckets, 4)
                    .starts_with("buckets: cost_model, 1 bucket of 1 MiB; a step takes 50.9 ms; backward"));
}

TEST(DescribeBuckets, SaysSizesOfFewAndTheRangeOfMany) {
    const auto plan = [](std::initializer_list<std::int64_t> counts) {
        std::vector<Bucket> buckets;
        for (const std::int64_t count : counts) buckets.push_back({.count = count});
        return buckets;
    };
    EXPECT_EQ(describe_buckets(plan({262144}), 4), "1 bucket of 1 MiB");
    EXPECT_EQ(describe_buckets(plan({131072, 1048576}), 4), "2 buckets of 0.5 and 4 MiB");
    EXPECT_EQ(describe_buckets(plan({131072, 262144, 1048576}), 4), "3 buckets of 0.5, 1 and 4 MiB");
    EXPECT_EQ(describe_buckets(plan({262144, 131072, 1, 1, 1, 1, 524288}), 8),
              "7 buckets of 7.63e-06 to 4 MiB");
}

}  // namespace
}  // namespace tutti
