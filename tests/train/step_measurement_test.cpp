#include "tutti/train/step_measurement.hpp"

#include <gtest/gtest.h>

#include "training_fixture.hpp"
#include "tutti/train/step_bench.hpp"

namespace tutti {
namespace {

TEST(StepMeasurement, PredictsByTheRecurrence) {
    const std::vector<Bucket> buckets{{0, 0, 0, 10}, {1, 1, 10, 10}};
    const CostModel cost({{.from_bytes = 0, .alpha = 1, .seconds_per_byte = 0.1}});  // 5 s a bucket
    StepMeasurement measured{.before = 3, .ready = {2, 4}, .backward_end = 6, .rest = 1};
    // 3 + max(2 + 5 + 5, 6) + 1
    EXPECT_EQ(measured.predict(buckets, {measured.ready, cost, 4}), 16);
    const CostModel free;
    EXPECT_EQ(measured.predict(buckets, {measured.ready, free, 4}), 10);
    // 0.25 s of the processor each; hidden: 3 + (6 + 2 × 0.25) + 1.
    const CostModel short_ones = CostModel({{0, 0.5, 0}}).with_processor({0.25, 0});
    EXPECT_EQ(measured.predict(buckets, {measured.ready, short_ones, 4}), 10.5);
}

TEST(StepMeasurement, NoScheduleIsFasterThanWhatIsLeftToSendAllows) {
    const std::vector<ParameterSlice> parameters{{0, 10}, {10, 10}};
    const CostModel cost({{.from_bytes = 0, .alpha = 1, .seconds_per_byte = 0.1}});  // 5 s for 10, 9 s for 20
    StepMeasurement measured{.before = 3, .ready = {2, 4}, .backward_end = 6, .rest = 1};
    // Everything from second 2 on: 2 + 9; the second alone: 4 + 5.
    EXPECT_EQ(measured.attainable(parameters, {measured.ready, cost, 4}), 3 + 11 + 1);
    measured.ready = {2, 8};
    EXPECT_EQ(measured.attainable(parameters, {measured.ready, cost, 4}), 3 + 13 + 1);
    const CostModel free;
    EXPECT_EQ(measured.attainable(parameters, {measured.ready, free, 4}), 3 + 8 + 1);
    measured.ready = {9, 4};  // a gradient that comes out of order is waited for
    EXPECT_EQ(measured.attainable(parameters, {measured.ready, cost, 4}), 3 + 18 + 1);
}

/// Every plan of so many parameters.
template <class Visit>
void for_all_plans(const std::vector<ParameterSlice>& parameters, const Visit& visit) {
    for (std::size_t cuts = 0; cuts < std::size_t{1} << (parameters.size() - 1); ++cuts) {
        std::vector<std::size_t> ends;
        for (std::size_t p = 0; p + 1 < parameters.size(); ++p)
            if (cuts >> p & 1) ends.push_back(p);
        ends.push_back(parameters.size() - 1);
        visit(plan_from_ends(parameters, ends));
    }
}

TEST(StepMeasurement, NoPlanIsFasterWhereSeveralTransfersAreCheaperThanOne) {
    const std::vector<ParameterSlice> parameters{{0, 10}, {10, 10}, {20, 10}, {30, 10}};
    // 1.4 s for 10 elements, 6.2 for 20, 15.8 for 40.
    const CostModel cost = CostModel({{0, 1, 0.01}, {40, -3.4, 0.12}}).with_latency(0.2);
    const StepMeasurement measured{.before = 3, .ready = {2, 3, 4, 5}, .backward_end = 5, .rest = 1};
    const BucketTiming timing{measured.ready, cost, 4};
    const double bound = measured.attainable(parameters, timing);
    double best = 100;
    for_all_plans(parameters, [&](const std::vector<Bucket>& plan) {
        const double step = measured.predict(plan, timing);
        EXPECT_GE(step, bound - 1e-12) << plan.size();
        best = std::min(best, step);
    });
    // 2 + 4 × 1.2 + 0.2, in four buckets.
    EXPECT_NEAR(bound, 3 + 7 + 1, 1e-12);
    EXPECT_NEAR(best, bound, 1e-12);
}

TEST(StepMeasurement, NoScheduleIsFasterThanAllGradientsWereWhereSmallTransfersAloneAreFree) {
    // Bursts of 10 elements cost nothing alone, 40 take 12 s: in four transfers, too.
    const std::vector<ParameterSlice> parameters{{0, 10}, {10, 10}, {20, 10}, {30, 10}};
    const CostModel cost({{0, 0, 0}, {40, -4, 0.1}});
    const StepMeasurement measured{.before = 3, .ready = {2, 3, 4, 5}, .backward_end = 5, .rest = 1};
    const BucketTiming timing{measured.ready, cost, 4};
    EXPECT_EQ(measured.attainable(parameters, timing), 3 + 5 + 1) << "by the model nothing is left";
    EXPECT_EQ(measured.attainable(parameters, timing, 12), 3 + 2 + 12 + 1);
    // Measured below what the model says, of all gradients and so of the later ones: 5 + 4 beside 2 + 4.
    const CostModel slow({{0, 10, 0.1}});
    EXPECT_EQ(measured.attainable(parameters, {measured.ready, slow, 4}, 4), 3 + 9 + 1);
}

TEST(StepMeasurement, KeepsItsSharesWhenItIsScaled) {
    StepMeasurement measured{.before = 3, .ready = {2, 4}, .backward_end = 6, .rest = 1};
    measured.profile.data = 0.5;
    measured.profile.optimizer = 0.75;
    measured.profile.layer_forward = {1, 1.5};
    const StepMeasurement twice = measured.scaled_to(20);
    EXPECT_EQ(twice.before, 6);
    EXPECT_EQ(twice.ready, (std::vector<double>{4, 8}));
    EXPECT_EQ(twice.backward_end, 12);
    EXPECT_EQ(twice.rest, 2);
    EXPECT_EQ(twice.compute(), 20);
    EXPECT_EQ(twice.profile.data, 1);
    EXPECT_EQ(twice.profile.optimizer, 1.5);
    EXPECT_EQ(twice.profile.layer_forward, (std::vector<double>{2, 3}));
}

TEST(StepMeasurement, ComputesAsLongAsTheSlowestRankOfEachStep) {
    test::run_training(2, {}, [](const TrainingJob& job) {
        const StepBench bench(job);
        StepRecorder recorder(bench.graph(), 1);
        recorder.begin_step(1);
        recorder.begin_micro_batch().backward = {2, 4};
        recorder.timeline().buckets = {{4, 4, 6}};  // 2 s of waiting
        // Of three steps each rank is disturbed in another one.
        std::vector<StepTimeline> steps(3, recorder.timeline());
        for (std::size_t i = 0; i < 3; ++i)
            steps[i].seconds = static_cast<int>(i) == job.control.rank() ? 12 : 7;
        EXPECT_EQ(agree_on_compute(steps, job.control), 10);
    });
}

TEST(StepMeasurement, IsThatOfTheSlowestRank) {
    test::run_training(2, {}, [](const TrainingJob& job) {
        const StepBench bench(job);
        StepRecorder recorder(bench.graph(), 1);
        recorder.begin_step(1);
        const double rank = job.control.rank();
        MicroBatchTimes& micro = recorder.begin_micro_batch();
        micro.backward = {2, 4 + rank};
        StepTimeline& timeline = recorder.timeline();
        for (double& ready : timeline.parameter_ready) ready = 3 + rank;
        timeline.buckets = {{4, 4, 6}};
        timeline.seconds = 8;
        const StepMeasurement agreed = agree_on_measurement({&timeline, 1}, job.control);
        EXPECT_EQ(agreed.before, 2);
        EXPECT_EQ(agreed.backward_end, 3);
        EXPECT_EQ(agreed.ready, std::vector<double>(bench.graph().parameters().size(), 2.0));
        EXPECT_EQ(agreed.rest, 2);
    });
}

}  // namespace
}  // namespace tutti
