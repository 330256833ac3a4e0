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

TEST(FirstNeededFirst, TakesOfTheReadyBucketsTheOneFurthestBehind) {
    using Order = std::vector<std::size_t>;
    // All ready before the first is through: what the first layers need goes ahead.
    EXPECT_EQ(first_needed_first(std::vector{0., 1., 2., 3.}, std::vector{10., 1., 1., 1.}),
              (Order{0, 3, 2, 1}));
    // A link that is faster than backward: as they come.
    EXPECT_EQ(first_needed_first(std::vector{0., 1., 2., 3.}, std::vector{.5, .5, .5, .5}),
              (Order{0, 1, 2, 3}));
    // Two ready when the first is through, the last one later.
    EXPECT_EQ(first_needed_first(std::vector{0., 1., 2., 5.}, std::vector{3., 1., 3., 1.}),
              (Order{0, 2, 3, 1}));
    EXPECT_EQ(first_needed_first({}, {}), Order{});
}

TEST(FirstNeededFirst, LetsOthersOvertakeBetweenPieces) {
    using Order = std::vector<std::size_t>;
    // Pieces of 0 from 0 to 2 and 4, then 1, which is ready at 3.
    EXPECT_EQ(first_needed_first(std::vector{0., 3.}, std::vector{2., 1.}, std::vector<std::size_t>{4, 1}),
              (Order{0, 0, 1, 0, 0}));
    // Nothing comes between them: one transfer.
    EXPECT_EQ(first_needed_first(std::vector{0., 8.}, std::vector{2., 1.}, std::vector<std::size_t>{4, 1}),
              (Order{0, 1}));
}

/// Three layers with a parameter of 10 elements each, of which backward finishes layer 2 first.
AcrossTiming three_layers() {
    AcrossTiming timing;
    timing.ready = {2, 4, 6};
    timing.backward_end = 6;
    timing.between = 1;
    timing.layers = {{2, 3, 1}, {1, 2, 1}, {0, 0, 0.5}, {0, 1, 1}};
    timing.loss = 0.5;
    return timing;
}
const std::vector<Bucket> three{{0, 0, 0, 10}, {1, 1, 10, 10}, {2, 2, 20, 10}};

TEST(StepAcross, IsTheComputationWhereTransfersAreShort) {
    // Backward 6, between 1, forward 3.5, loss 0.5; the last bucket is done at 6.1.
    EXPECT_DOUBLE_EQ(
        step_across(three, std::vector<std::size_t>{0, 1, 2}, std::vector{.1, .1, .1}, three_layers()), 11);
}

TEST(StepAcross, WaitsForWhatALayerNeedsAndForWhatWasIssuedBeforeIt) {
    // On the link from 2 to 6, 6 to 10, 10 to 14: layer 0 waits until 14.
    EXPECT_DOUBLE_EQ(
        step_across(three, std::vector<std::size_t>{0, 1, 2}, std::vector{4., 4., 4.}, three_layers()),
        14 + 3.5 + 0.5);
    // Layer 0 goes from 10, layer 1 from 14.
    EXPECT_DOUBLE_EQ(
        step_across(three, std::vector<std::size_t>{0, 2, 1}, std::vector{4., 4., 4.}, three_layers()),
        14 + 2.5 + 0.5);
    // Updates: 0 and 2 before layer 0 (10 + 2), 1 from 14 on.
    AcrossTiming timing = three_layers();
    timing.update_per_element = 0.1;
    EXPECT_DOUBLE_EQ(step_across(three, std::vector<std::size_t>{0, 2, 1}, std::vector{4., 4., 4.}, timing),
                     14 + 1 + 2.5 + 0.5);
}

TEST(StepWithin, IsTheComputationAndWhatTheLastBucketIsLate) {
    // The last bucket is ready at 6, done at 6.1, 0.1 behind backward; between 1, forward 3.5, loss 0.5.
    EXPECT_DOUBLE_EQ(step_within(three, std::vector{.1, .1, .1}, three_layers()), 6.1 + 5);
    // On the link from 2 to 6, 6 to 10, 10 to 14.
    EXPECT_DOUBLE_EQ(step_within(three, std::vector{4., 4., 4.}, three_layers()), 14 + 5);
    // Only the last bucket's update comes behind a busy link, all of them behind an idle one.
    AcrossTiming timing = three_layers();
    timing.update_per_element = 0.1;
    EXPECT_DOUBLE_EQ(step_within(three, std::vector{4., 4., 4.}, timing), 14 + 1 + 5);
    EXPECT_DOUBLE_EQ(step_within(three, std::vector{.1, .1, .1}, timing), 6 + 3 + 5);
}

TEST(IssueOrder, IsThePlansOwnUnlessAnotherIsFaster) {
    EXPECT_EQ(issue_order(three, std::vector{.1, .1, .1}, three_layers()),
              (std::vector<std::size_t>{0, 1, 2}));
    EXPECT_EQ(issue_order(three, std::vector{4., 4., 4.}, three_layers()),
              (std::vector<std::size_t>{0, 2, 1}));
}

/// Seconds of a transfer: alpha + bytes / 10.
CostModel cost_of(double alpha) {
    return CostModel({{.from_bytes = 0, .alpha = alpha, .seconds_per_byte = 0.1}});
}
const std::vector<ParameterSlice> parameters{{0, 10}, {10, 10}, {20, 10}};
const std::vector<bool> every_layer{true, true, true};

/// A large parameter that is ready first and needed last, and a small one: 8 and 1 s on the link.
AcrossTiming large_and_small(double per_piece) {
    AcrossTiming timing;
    timing.ready = {1, 3};
    timing.backward_end = 3;
    timing.between = 1;
    timing.layers = {{1, 2, 1}, {0, 1, 2}};
    timing.per_piece = per_piece;
    return timing;
}
const std::vector<ParameterSlice> unequal{{0, 80}, {80, 10}};
const std::vector<Bucket> large_small{{0, 0, 0, 80}, {1, 1, 80, 10}};

TEST(StepAcross, CountsThePiecesOfABucket) {
    const std::vector<std::size_t> cut{0, 0, 1, 0, 0};
    // The large one to 9, the small one to 10, both layers.
    EXPECT_DOUBLE_EQ(
        step_across(large_small, std::vector<std::size_t>{0, 1}, std::vector{8., 1.}, large_and_small(0)),
        10 + 1 + 2);
    // 2 s a piece: to 3 and 5, the small one to 6, its layer meanwhile; to 8 and 10.
    EXPECT_DOUBLE_EQ(step_across(large_small, cut, std::vector{8., 1.}, large_and_small(0)), 10 + 2);
    // 2.375 s a piece, since three of them cost 0.5 s each.
    EXPECT_DOUBLE_EQ(step_across(large_small, cut, std::vector{8., 1.}, large_and_small(0.5)), 11.5 + 2);
    // A bucket is updated once, when its last piece is there.
    AcrossTiming timing = large_and_small(0);
    timing.update_per_element = 0.01;
    EXPECT_DOUBLE_EQ(step_across(large_small, cut, std::vector{8., 1.}, timing), 10 + 0.8 + 2);
}

TEST(IssueOrder, CutsALargeBucketWhereThatIsFaster) {
    using Order = std::vector<std::size_t>;
    const std::vector seconds{8., 1.};
    EXPECT_EQ(issue_order(large_small, seconds, large_and_small(0)), (Order{0, 1, 0, 0}));
    // Pieces that cost a second each.
    EXPECT_EQ(issue_order(large_small, seconds, large_and_small(1)), (Order{0, 1}));
    // Transfers that take no time.
    EXPECT_EQ(issue_order(large_small, std::vector{0., 0.}, large_and_small(0)), (Order{0, 1}));
    // Where bits would depend on it.
    EXPECT_EQ(issue_order(large_small, seconds, large_and_small(std::numeric_limits<double>::infinity())),
              (Order{0, 1}));
}

TEST(IssueOrder, CutsForAHundredthOfAStepAndNotForLess) {
    using Order = std::vector<std::size_t>;
    const std::vector seconds{8., 1.};
    AcrossTiming timing = large_and_small(0);
    const double whole = step_across(large_small, Order{0, 1}, seconds, timing);
    const double saved = whole - step_across(large_small, Order{0, 1, 0, 0}, seconds, timing);
    EXPECT_NEAR(saved, 1, 1e-9);  // thirds of 8
    timing.loss = 98 * saved - whole;
    EXPECT_EQ(issue_order(large_small, seconds, timing), (Order{0, 1, 0, 0}));
    timing.loss = 102 * saved - whole;
    EXPECT_EQ(issue_order(large_small, seconds, timing), (Order{0, 1}));
}

TEST(OrderFor, NamesABucketOnceWhereBitsWouldDependOnTheCut) {
    using Order = std::vector<std::size_t>;
    for (const int ranks : {2, 3})
        test::run_on_threads(ranks, [&](Communicator& communicator) {
            ASSERT_EQ(communicator.sums_in_rank_order(), ranks == 2);
            // By the last piece: what waits for the bucket waits for nothing more than before.
            EXPECT_EQ(order_for(communicator, {0, 2, 0, 1, 2, 0}),
                      ranks == 2 ? (Order{0, 2, 0, 1, 2, 0}) : (Order{1, 2, 0}));
            EXPECT_EQ(order_for(communicator, {1, 0}), (Order{1, 0}));
            EXPECT_EQ(order_for(communicator, {}), Order{});
        });
}

TEST(PieceCost, IsInfiniteWhereBitsWouldDependOnTheCut) {
    for (const int ranks : {1, 2, 3})
        test::run_on_threads(ranks, [&](Communicator& communicator) {
            EXPECT_EQ(communicator.sums_in_rank_order(), ranks < 3);
            EXPECT_EQ(piece_cost(communicator, 0.25),
                      ranks < 3 ? 0.25 : std::numeric_limits<double>::infinity());
        });
}

TEST(PlanAcrossSteps, CutsWhatIsReadyEarlyAndNeededLate) {
    const CostModel cost({{.from_bytes = 0, .alpha = 0, .seconds_per_byte = 0.1}});
    const AcrossTiming timing = large_and_small(0);
    const AcrossPlan plan = plan_across_steps(unequal, {true, true}, cost, 1, timing);
    EXPECT_EQ(plan.buckets, large_small);
    EXPECT_EQ(plan.order, (std::vector<std::size_t>{0, 1, 0, 0}));
    // No schedule is shorter: 9 s of transfers from second 1 on, then the layer that waits for the large one.
    EXPECT_DOUBLE_EQ(plan.seconds, 1 + 9 + 2);
    EXPECT_DOUBLE_EQ(plan.seconds, attainable_across(unequal, {timing.ready, cost, 1}, timing));
}

TEST(PlanAcrossSteps, JoinsLayersWhereThatIsFaster) {
    // 5 s a bucket: 0 from 2 to 7, 2 to 12, 1 to 17, then two and a half layers of forward and the loss.
    const AcrossPlan apart = plan_across_steps(parameters, every_layer, cost_of(1), 4, three_layers());
    EXPECT_EQ(apart.buckets, three);
    EXPECT_EQ(apart.order, (std::vector<std::size_t>{0, 2, 1}));
    EXPECT_DOUBLE_EQ(apart.seconds, 17 + 2.5 + 0.5);
    // 7 s a bucket, 11 s for two in one: 0 from 2 to 9, the others to 20, then all of forward.
    const AcrossPlan joined = plan_across_steps(parameters, every_layer, cost_of(3), 4, three_layers());
    EXPECT_EQ(joined.buckets, (std::vector<Bucket>{{0, 0, 0, 10}, {1, 2, 10, 20}}));
    EXPECT_DOUBLE_EQ(joined.seconds, 20 + 3.5 + 0.5);
}

TEST(AttainableAcross, IsWhatTransfersAndWhoWaitsForThemNeed) {
    AcrossTiming timing = three_layers();
    const CostModel cost = cost_of(1), free;
    // All gradients from second 2 on, 13 s; then the last layer and the loss.
    EXPECT_DOUBLE_EQ(attainable_across(parameters, {timing.ready, cost, 4}, timing), 2 + 13 + 1 + 0.5);
    EXPECT_LE(attainable_across(parameters, {timing.ready, cost, 4}, timing),
              plan_across_steps(parameters, every_layer, cost, 4, timing).seconds);
    // Nothing to wait for: the computation.
    EXPECT_DOUBLE_EQ(attainable_across(parameters, {timing.ready, free, 4}, timing), 11);
    // The first layer's gradients are late: 20 + 5, and all of forward.
    timing.ready = {2, 4, 20};
    timing.backward_end = 20;
    EXPECT_DOUBLE_EQ(attainable_across(parameters, {timing.ready, cost, 4}, timing), 20 + 5 + 3.5 + 0.5);
}

TEST(IssueOrder, MustHoldEachBucket) {
    check_issue_order({}, 3);
    check_issue_order(std::vector<std::size_t>{2, 0, 1}, 3);
    check_issue_order(std::vector<std::size_t>{2, 0, 2, 1, 2}, 3);
    EXPECT_THROW(check_issue_order(std::vector<std::size_t>{2, 0, 0}, 3), DataError);
    EXPECT_THROW(check_issue_order(std::vector<std::size_t>{0, 1, 2, 3}, 3), DataError);
    EXPECT_THROW(check_issue_order(std::vector<std::size_t>{0, 1}, 3), DataError);
    EXPECT_THROW(check_issue_order(std::vector<std::size_t>{1, 2, 3}, 3), DataError);
}

}  // namespace
}  // namespace tutti
