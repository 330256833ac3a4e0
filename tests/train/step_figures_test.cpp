// Numbers from time lines made by hand.
#include "tutti/train/step_figures.hpp"

#include <gtest/gtest.h>

#include "training_fixture.hpp"
#include "tutti/train/step_bench.hpp"

namespace tutti {
namespace {

/// A time line of one micro-batch: data 0 to 1, forward to 3, backward to 6, optimizer from 9 to 10.
StepTimeline timeline_with(std::vector<BucketTimes> buckets) {
    std::vector<StepTimeline> made;
    test::run_training(1, {}, [&](const TrainingJob& job) {
        const StepBench bench(job);
        StepRecorder recorder(bench.graph(), 1);
        recorder.begin_step(buckets.size());
        MicroBatchTimes& micro = recorder.begin_micro_batch();
        micro.data = {0, 1};
        micro.forward = {1, 3};
        micro.backward = {3, 6};
        StepTimeline& timeline = recorder.timeline();
        timeline.buckets = buckets;
        timeline.optimizer = {9, 10};
        timeline.seconds = 10;
        made.push_back(timeline);
    });
    return made.front();
}

TEST(StepFigures, PartsOfAStep) {
    StepTimeline timeline = timeline_with({{3.5, 3.5, 5}});
    timeline.transfer_cpu = 0.25;
    timeline.off_core = 0.5;
    const StepFigures figures = figures_of(timeline);
    EXPECT_EQ(figures.transfer_cpu, 0.25);
    EXPECT_EQ(figures.off_core, 0.5);
    EXPECT_EQ(figures.step, 10);
    EXPECT_EQ(figures.data, 1);
    EXPECT_EQ(figures.forward, 2);
    EXPECT_EQ(figures.backward, 3);
    EXPECT_EQ(figures.optimizer, 1);
}

TEST(StepFigures, APauseBetweenPiecesIsNoCommunication) {
    StepTimeline timeline = timeline_with({{3, 3, 8}, {5, 5, 5.5}});
    timeline.pauses = 1.5;
    const StepFigures figures = figures_of(timeline);
    EXPECT_EQ(figures.communication, 3.5);
    EXPECT_EQ(figures.exposed, 2);
    EXPECT_EQ(figures.hidden(), 1.5);
}

struct CommunicationCase {
    std::string name;
    std::vector<BucketTimes> buckets;  // ready, issued, done; backward ends at 6
    double communication, hidden, exposed;
};

class StepCommunication : public ::testing::TestWithParam<CommunicationCase> {};

TEST_P(StepCommunication, IsHiddenPlusExposed) {
    const CommunicationCase& expected = GetParam();
    const StepFigures figures = figures_of(timeline_with(expected.buckets));
    EXPECT_DOUBLE_EQ(figures.communication, expected.communication);
    EXPECT_DOUBLE_EQ(figures.hidden(), expected.hidden);
    EXPECT_DOUBLE_EQ(figures.exposed, expected.exposed);
    EXPECT_DOUBLE_EQ(figures.overlap(),
                     expected.communication > 0 ? expected.hidden / expected.communication : 0);
}

INSTANTIATE_TEST_SUITE_P(
    Table, StepCommunication,
    ::testing::Values(CommunicationCase{"NoBuckets", {}, 0, 0, 0},
                      CommunicationCase{"AllHidden", {{3.5, 3.5, 5}}, 1.5, 1.5, 0},
                      CommunicationCase{"AllExposed", {{6, 6, 8.5}}, 2.5, 0, 2.5},
                      CommunicationCase{"OverTheEndOfBackward", {{4, 4, 8}}, 4, 2, 2},
                      // Two at once count once; the pause between 5 and 5.5 does not count.
                      CommunicationCase{"Overlapping", {{3, 3, 4.5}, {4, 4, 5}, {5.5, 5.5, 7}}, 3.5, 2.5, 1},
                      CommunicationCase{"OneInsideAnother", {{3, 3, 8}, {4, 4, 5}, {6, 6, 8}}, 5, 3, 2},
                      // Ready does not count: it waits for the one before it, on another rank's account.
                      CommunicationCase{"WaitingIsNoCommunication", {{3, 5, 6}}, 1, 1, 0}),
    [](const auto& one) { return one.param.name; });

TEST(StepFigures, TheSlowestRankCounts) {
    test::run_on_threads(3, [](Communicator& communicator) {
        const double rank = communicator.rank();
        std::vector<StepFigures> steps(2);
        steps[0].step = 10 + rank;
        steps[0].exposed = 2 - rank;
        steps[0].communication = 4;
        steps[0].transfer_cpu = rank;
        steps[0].off_core = 3 - rank;
        steps[0].buckets = {{1 + rank, 2 + rank, 3 - rank}};
        steps[1].step = 7 - rank;
        steps[1].buckets = {{5, 5, 5 + rank}};
        take_slowest(steps, communicator);
        EXPECT_EQ(steps[0].step, 12);
        EXPECT_EQ(steps[0].exposed, 2);
        EXPECT_EQ(steps[0].hidden(), 2);
        EXPECT_EQ(steps[0].transfer_cpu, 2);
        EXPECT_EQ(steps[0].off_core, 3);
        EXPECT_EQ(steps[0].buckets[0].ready, 3);
        EXPECT_EQ(steps[0].buckets[0].issued, 4);
        EXPECT_EQ(steps[0].buckets[0].done, 3);
        EXPECT_EQ(steps[1].step, 7);
        EXPECT_EQ(steps[1].buckets[0].done, 7);
    });
}

TEST(StepFigures, TheMedianStepIsOneOfThem) {
    std::vector<StepFigures> steps(4);
    const double seconds[] = {4, 1, 3, 2};
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i].step = seconds[i];
    EXPECT_EQ(median_step(steps), 2u);
    EXPECT_EQ(median_step(std::span(steps).first(3)), 2u);
    EXPECT_EQ(median_step(std::span(steps).first(1)), 0u);
}

TEST(StepProfile, TakesTheLastMicroBatchAndTheMedianOverSteps) {
    test::run_training(1, {"train.accumulate=2"}, [](const TrainingJob& job) {
        const StepBench bench(job);
        const std::size_t layers = bench.graph().report().size();
        std::vector<StepTimeline> steps;
        for (const double factor : {1.0, 5.0, 2.0}) {
            StepRecorder recorder(bench.graph(), 2);
            recorder.begin_step(1);
            for (const double begin : {0.0, 100.0}) {
                MicroBatchTimes& micro = recorder.begin_micro_batch();
                const double unit = begin == 0 ? 9 : factor;  // the first micro-batch is another
                micro.data = {begin, begin + unit};
                double now = begin + 10;
                micro.forward.begin = now;
                for (TimeSpan& layer : micro.layer_forward) {
                    layer = {now, now + 0.5 * unit};
                    now = layer.end;
                }
                micro.forward.end = now += 3 * unit;
                micro.backward.begin = now;
                now += 4 * unit;
                for (std::size_t layer = layers; layer-- > 0;) {
                    micro.layer_backward[layer] = {now, now + unit};
                    now += 2 * unit;  // half of it for the buckets
                }
                micro.backward.end = now;
            }
            recorder.timeline().optimizer = {200, 200 + 6 * factor};
            steps.push_back(recorder.timeline());
        }
        const StepProfile profile = profile_of(steps);
        EXPECT_DOUBLE_EQ(profile.data, 2);
        EXPECT_DOUBLE_EQ(profile.loss_forward, 6);
        EXPECT_DOUBLE_EQ(profile.loss_backward, 8);
        EXPECT_DOUBLE_EQ(profile.optimizer, 12);
        ASSERT_EQ(profile.layer_forward.size(), layers);
        for (const double seconds : profile.layer_forward) EXPECT_DOUBLE_EQ(seconds, 1);
        for (const double seconds : profile.layer_backward) EXPECT_DOUBLE_EQ(seconds, 2);
    });
}

}  // namespace
}  // namespace tutti
