// Buckets on the network during the next step's forward, with ranks as threads: the same bits as without.
#include "tutti/train/across_steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <mutex>

#include "order_measurement.hpp"
#include "support/thread_communicator.hpp"
#include "train_step.hpp"
#include "training_fixture.hpp"
#include "tutti/train/step_figures.hpp"

namespace tutti {
namespace {

using Settings = std::vector<std::string>;

/// What a run leaves on rank 0, and in each update's report.
struct Outcome {
    std::vector<NamedTensor> model, optimizer, average;
    std::vector<double> losses;
    std::size_t deferred = 0;  // updates that returned with buckets on the network
};

/// Called after an update, for what happens between updates.
using Between = std::function<void(TrainStep&, int update)>;

void next_epoch_if_needed(TrainStep& training) {
    while (!training.epoch_has_more()) {
        if (training.progress.position > 0) ++training.progress.epoch;
        training.progress.position = 0;
        training.start_epoch();
    }
}

Outcome train(int ranks, const Settings& settings, int updates, const Between& between = {}) {
    Outcome outcome;
    std::mutex mutex;
    const bool image = std::ranges::any_of(
        settings, [](const std::string& setting) { return setting.find("conv2d") != std::string::npos; });
    const auto body = [&](const TrainingJob& job) {
        TrainStep training(job);
        training.initial_weights();
        std::vector<double> losses;
        std::size_t deferred = 0;
        for (int update = 0; update < updates; ++update) {
            next_epoch_if_needed(training);
            training.update();
            deferred += training.reducer.pending() ? 1u : 0u;
            losses.push_back(training.sums.loss().loss);
            if (between) between(training, update);
        }
        // Nothing says that it is to be completed: the graph sees to it.
        auto model = training.graph.save();
        EXPECT_FALSE(training.reducer.pending());
        std::vector<NamedTensor> optimizer, average;
        for (const Optimizer::State& state : training.optimizer->state())
            for (NamedTensor& tensor : training.graph.save_arena(state.arena, state.name + "/"))
                optimizer.push_back(std::move(tensor));
        if (training.average) average = training.graph.save_arena(training.average->arena(), "");
        const std::lock_guard lock(mutex);
        if (!outcome.model.empty()) {
            for (std::size_t t = 0; t < model.size(); ++t)
                EXPECT_EQ(model[t].bytes, outcome.model[t].bytes) << model[t].name << " differs among ranks";
        }
        outcome = {std::move(model), std::move(optimizer), std::move(average), std::move(losses), deferred};
    };
    test::run_training(ranks, settings, body, image ? Shape{2, 2, 2} : Shape{8});
    return outcome;
}

void expect_same_bits(const std::vector<NamedTensor>& one, const std::vector<NamedTensor>& other) {
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t t = 0; t < one.size(); ++t) {
        EXPECT_EQ(one[t].name, other[t].name);
        EXPECT_EQ(one[t].bytes, other[t].bytes) << one[t].name;
    }
}

void expect_same_bits(const Outcome& one, const Outcome& other) {
    EXPECT_EQ(one.losses, other.losses);
    expect_same_bits(one.model, other.model);
    expect_same_bits(one.optimizer, other.optimizer);
    expect_same_bits(one.average, other.average);
}

Settings with(Settings settings, const Settings& more) {
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
}

const Settings within{"distributed.across_steps=false"};
const Settings per_layer{"distributed.bucket_policy=per_layer"};

const std::vector<Settings> recipes{
    {"optim.name=sgd", "optim.lr=0.1"},
    {"optim.name=sgd", "optim.lr=0.1", "optim.momentum=0.9", "optim.weight_decay=0.01",
     "optim.decay_1d=false", "distributed.bucket_policy=per_layer"},
    {"optim.name=adam", "optim.lr=0.01", "distributed.bucket_policy=single"},
    {"optim.name=adamw", "optim.lr=0.01", "optim.weight_decay=0.1", "optim.layer_decay=0.5",
     "distributed.first_bucket_mb=0.0001", "distributed.bucket_mb=0.0001", "train.ema=0.9"},
    {"optim.name=adadelta", "optim.lr=1", "distributed.bucket_policy=per_layer"},
    {"optim.name=lamb", "optim.lr=0.01", "distributed.bucket_policy=per_layer"},
    {"optim.name=adam", "optim.lr=0.01", "distributed.bucket_policy=per_layer", "train.recompute=true",
     "model.name=null",
     "model.layers=[{linear: {out: 7}}, {layer_norm: {}}, relu, {dropout: {p: 0.4}}, {linear: {out: 6}}, "
     "relu, "
     "{linear: {out: 4}}]"},
    {"optim.name=sgd", "optim.lr=0.1", "distributed.bucket_policy=per_layer", "model.name=null",
     "model.layers=[{conv2d: {out: 3, kernel: 3, padding: 1}}, {batch_norm2d: {}}, relu, flatten, "
     "{linear: {out: 4}}]"},
};

class AcrossStepsRanks : public ::testing::TestWithParam<int> {};

TEST_P(AcrossStepsRanks, TrainsToTheBitsOfStepsThatEndTheirTransfers) {
    for (const Settings& recipe : recipes) {
        SCOPED_TRACE(recipe[0] + " " + recipe.back());
        const Outcome one = train(GetParam(), with(recipe, within), 15),
                      other = train(GetParam(), recipe, 15);
        expect_same_bits(one, other);
        EXPECT_EQ(one.deferred, 0u);
        EXPECT_EQ(other.deferred, 15u);
    }
}

TEST_P(AcrossStepsRanks, AnyOrderOfIssueGivesTheSameBits) {
    const Settings recipe = with({"optim.name=adam", "optim.lr=0.01"}, per_layer);
    const Outcome plain = train(GetParam(), with(recipe, within), 9);
    for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{2, 1, 0},
                                                  {0, 2, 1},
                                                  {1, 0, 2},
                                                  {1, 2, 0},
                                                  {0, 2, 0, 1, 0},
                                                  {1, 1, 2, 0, 1, 2}}) {
        const Outcome ordered = train(GetParam(), recipe, 9, [&](TrainStep& training, int update) {
            if (update > 0) return;
            ASSERT_EQ(training.reducer.buckets().size(), 3u);
            training.replan(training.reducer.buckets(), order);
        });
        expect_same_bits(plain, ordered);
        EXPECT_EQ(ordered.deferred, 9u) << "the plan is changed after that is counted";
    }
}

TEST_P(AcrossStepsRanks, TheSchedulesMayTakeTurnsFromStepToStep) {
    const Settings recipe = with({"optim.name=adam", "optim.lr=0.01", "train.ema=0.9"}, per_layer);
    const Outcome plain = train(GetParam(), with(recipe, within), 24);
    // Bits of the number: which updates are across steps.
    for (const unsigned pattern : {0b010101u, 0b011010u, 0b001011u}) {
        const Outcome mixed = train(GetParam(), recipe, 24, [&](TrainStep& training, int update) {
            const bool across = (pattern >> (update % 6) & 1u) != 0;
            training.spread_across_steps(across);
            EXPECT_FALSE(training.reducer.pending());
            training.replan(training.reducer.buckets(),
                            across ? std::vector<std::size_t>{1, 0, 1, 2} : std::vector<std::size_t>());
        });
        expect_same_bits(plain, mixed);
        EXPECT_EQ(mixed.deferred, 13u) << "the first, and half of the others";
    }
}

TEST_P(AcrossStepsRanks, WhoReadsParametersInBetweenFindsThoseOfTheLastStep) {
    const Settings recipe = with({"optim.name=sgd", "optim.lr=0.1", "optim.momentum=0.9"}, per_layer);
    for (int stop = 0; stop < 3; ++stop) {
        std::mutex mutex;
        std::vector<std::vector<NamedTensor>> seen(2);
        for (const std::size_t run : {0u, 1u})
            train(GetParam(), run == 0 ? with(recipe, within) : recipe, stop + 1,
                  [&](TrainStep& training, int update) {
                      if (update != stop) return;
                      std::vector<NamedTensor> model = training.graph.save();
                      const std::lock_guard lock(mutex);
                      seen[run] = std::move(model);
                  });
        expect_same_bits(seen[0], seen[1]);
    }
}

TEST_P(AcrossStepsRanks, AnEvaluationInBetweenSeesAllOfTheLastStep) {
    const Settings recipe = with({"optim.name=adam", "optim.lr=0.01"}, per_layer);
    std::mutex mutex;
    std::vector<std::vector<float>> logits(2);
    for (const std::size_t run : {0u, 1u})
        train(GetParam(), run == 0 ? with(recipe, within) : recipe, 4, [&](TrainStep& training, int update) {
            if (update != 2) return;
            const auto input = training.graph.input(2).span<float>();
            for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i % 5) - 2;
            const auto output = training.graph.forward(2, {Phase::evaluate, 0, 0, {}}).span<float>();
            const std::lock_guard lock(mutex);
            logits[run].assign(output.begin(), output.end());
        });
    EXPECT_FALSE(logits[0].empty());
    EXPECT_EQ(logits[0], logits[1]);
}

TEST_P(AcrossStepsRanks, TimelinesTellWhenBucketsAreDoneInTheNextStep) {
    test::run_training(GetParam(), per_layer, [&](const TrainingJob& job) {
        TrainStep training(job);
        training.initial_weights();
        StepRecorder recorder(training.graph, 1);
        training.record(&recorder);
        for (int update = 0; update < 6; ++update) {
            next_epoch_if_needed(training);
            training.update();
            EXPECT_TRUE(recorder.timeline().goes_on);
            if (update == 0) continue;
            const StepTimeline& before = recorder.previous();
            for (const BucketTimes& bucket : before.buckets) {
                EXPECT_GT(bucket.ready, 0);
                EXPECT_GE(bucket.issued, bucket.ready);
                EXPECT_GE(bucket.done, bucket.issued);
            }
            const auto& micro = recorder.timeline().micro_batches().front();
            EXPECT_LE(recorder.timeline().late_waits + recorder.timeline().late_updates,
                      micro.forward.seconds());
            // Nothing is counted twice.
            const StepFigures figures = figures_of(recorder.timeline());
            EXPECT_LE(figures.data + figures.forward + figures.backward + figures.exposed + figures.optimizer,
                      figures.step * (1 + 1e-9));
        }
        training.complete();
        for (const BucketTimes& bucket : recorder.timeline().buckets) EXPECT_GT(bucket.done, 0);
    });
}

INSTANTIATE_TEST_SUITE_P(Ranks, AcrossStepsRanks, ::testing::Values(2, 3, 4),
                         [](const auto& row) { return std::to_string(row.param) + "_ranks"; });

TEST(AcrossSteps, StayWithAutoOnlyWhereTheModelSaysThatTheyPay) {
    const auto stays = [](const char* setting, const ScheduleForecast& on_rank_0,
                          const ScheduleForecast& elsewhere) -> bool {
        std::mutex mutex;
        std::vector<bool> kept, spread;
        test::run_training(2, {setting}, [&](const TrainingJob& job) {
            TrainStep training(job);
            training.initial_weights();
            training.spread_across_steps(true);
            const bool keeps = keep_across_steps(training, job.control.rank() == 0 ? on_rank_0 : elsewhere);
            const std::lock_guard lock(mutex);
            kept.push_back(keeps);
            spread.push_back(training.spreads_across_steps());
        });
        EXPECT_EQ(kept, spread) << setting;
        EXPECT_EQ(kept[0], kept[1]) << setting;
        return kept[0];
    };
    const ScheduleForecast good{90, 100}, poor{96, 100};
    EXPECT_TRUE(stays("distributed.across_steps=auto", good, good));
    EXPECT_FALSE(stays("distributed.across_steps=auto", poor, poor));
    EXPECT_TRUE(stays("distributed.across_steps=auto", good, poor)) << "rank 0's forecast counts";
    EXPECT_FALSE(stays("distributed.across_steps=auto", poor, good)) << "rank 0's forecast counts";
    EXPECT_TRUE(stays("distributed.across_steps=true", poor, poor)) << "asked for";
}

TEST(AcrossSteps, AreLeftWhereAllGradientsAreNeededAtOnce) {
    for (const Settings& settings : std::vector<Settings>{{"optim.clip_norm=1"},
                                                          {"train.accumulate=2"},
                                                          {"train.nan_policy=skip"},
                                                          {"distributed.strategy=zero1"},
                                                          {"distributed.sync_batch_norm=true"}}) {
        EXPECT_EQ(train(2, with(settings, {"optim.lr=0.1"}), 3).deferred, 0u) << settings[0];
    }
    EXPECT_EQ(train(1, {}, 3).deferred, 0u);
}

}  // namespace
}  // namespace tutti
