#include "trial_plans.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

/// Layers of as many elements, with the cost model's plans for them.
struct Layers {
    std::vector<ParameterSlice> parameters;
    std::vector<bool> ends;
    AcrossTiming across;
    CostModel cost;
    BucketTiming timing{across.ready, cost, 4};
    TrialContext context{parameters, ends, timing, 1048576, &across};
    SchedulePlans plans;

    Layers(const std::vector<std::int64_t>& counts, AcrossTiming given, CostPiece piece)
        : ends(counts.size(), true), across(std::move(given)), cost({piece}) {
        std::int64_t offset = 0;
        for (const std::int64_t count : counts) {
            parameters.push_back({offset, count});
            offset += count;
        }
        context.parameters = parameters;
        plans = plan_schedules(parameters, ends, timing, across);
    }
    Layers(const Layers&) = delete;
    Layers& operator=(const Layers&) = delete;
};

/// Four layers of 1 MiB in fp32; 1 ms and 1 ms a MiB for a transfer; backward to 8 ms, forward 2 ms a layer.
struct FourLayers : Layers {
    FourLayers() : Layers({262144, 262144, 262144, 262144}, timing_of(), {0, 1e-3, 1e-3 / 1048576}) {}

    static AcrossTiming timing_of() {
        AcrossTiming across;
        across.ready = {2e-3, 4e-3, 6e-3, 8e-3};
        across.backward_end = 8e-3;
        for (std::size_t layer = 4; layer-- > 0;) across.layers.push_back({layer, layer + 1, 2e-3});
        return across;
    }
};

/// "cost_model/within 2; ...", with the number of buckets.
std::string text_of(const std::vector<BucketTrial>& trials) {
    std::string text;
    for (const BucketTrial& trial : trials)
        text += (text.empty() ? "" : "; ") + trial.name + (trial.across_steps() ? "/across " : "/within ") +
                std::to_string(trial.ends.size());
    return text;
}

TEST(PlansToTry, OfOneScheduleAreAllOfIt) {
    const FourLayers model;
    // per_layer and the small sizes of ddp cut like the cost model here.
    EXPECT_EQ(text_of(plans_to_try(model.context, model.plans, ScheduleTrials::within)),
              "cost_model/within 4; single/within 1; ddp 2.5 MiB/within 2");
    EXPECT_EQ(text_of(plans_to_try(model.context, model.plans, ScheduleTrials::across)),
              "cost_model/across 4; single/across 1; ddp 2.5 MiB/across 2");
}

TEST(PlansToTry, OfBothBeginWithTheCostModelsPlanOfEachThePreferredFirst) {
    const FourLayers model;
    EXPECT_EQ(text_of(plans_to_try(model.context, model.plans, ScheduleTrials::within_first)),
              "cost_model/within 4; cost_model/across 4; single/within 1; ddp 2.5 MiB/within 2; ddp 2.5 "
              "MiB/across 2");
    EXPECT_EQ(text_of(plans_to_try(model.context, model.plans, ScheduleTrials::across_first)),
              "cost_model/across 4; cost_model/within 4; ddp 2.5 MiB/across 2; single/within 1; ddp 2.5 "
              "MiB/within 2");
}

TEST(PlansToTry, HaveThePredictionOfTheirSchedule) {
    const FourLayers model;
    for (const BucketTrial& trial : plans_to_try(model.context, model.plans, ScheduleTrials::within_first)) {
        const auto buckets = plan_from_ends(model.parameters, trial.ends);
        const auto seconds = transfer_seconds(buckets, model.timing);
        EXPECT_DOUBLE_EQ(trial.predicted, trial.across_steps()
                                              ? step_across(buckets, trial.order, seconds, model.across)
                                              : finish_time(buckets, model.timing))
            << trial.name;
    }
}

TEST(PlansToTry, HaveWhatGoesInPiecesAlsoInWholeTransfers) {
    // The first in the arena has nearly all, is ready first and needed last.
    AcrossTiming across;
    across.ready = {1e-3, 8e-3};
    across.backward_end = 8e-3;
    across.layers = {{1, 2, 6e-3}, {0, 1, 1e-3}};
    across.per_piece = 0;
    const Layers model({2000000, 1000}, across, {0, 0, 1.5e-9});
    const auto trials = plans_to_try(model.context, model.plans, ScheduleTrials::across_first);
    ASSERT_TRUE(trials.front().in_pieces());
    const BucketTrial& whole = trials.back();
    EXPECT_EQ(whole.name, "cost_model in whole transfers");
    EXPECT_EQ(whole.ends, trials.front().ends);
    EXPECT_FALSE(whole.in_pieces());
    EXPECT_TRUE(whole.across_steps());
}

TEST(PlansByCost, AreTheCostModelsAlone) {
    const FourLayers model;
    EXPECT_EQ(text_of(plans_by_cost(model.context, model.plans, ScheduleTrials::across)),
              "cost_model/across 4");
    EXPECT_EQ(text_of(plans_by_cost(model.context, model.plans, ScheduleTrials::within)),
              "cost_model/within 4");
}

}  // namespace
}  // namespace tutti
