// Real steps with a recorded time line.
#include "tutti/train/step_bench.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "training_fixture.hpp"

namespace tutti {
namespace {

std::vector<std::byte> weights(const StepBench& bench) {
    const TensorView arena = bench.graph().parameter_arena();
    return {arena.data, arena.data + arena.bytes()};
}

void expect_inside(const TimeSpan& inner, const TimeSpan& outer) {
    EXPECT_LE(outer.begin, inner.begin);
    EXPECT_LE(inner.begin, inner.end);
    EXPECT_LE(inner.end, outer.end);
}

void expect_layers_inside(const std::vector<TimeSpan>& layers, const TimeSpan& whole, bool ascending) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
        EXPECT_GT(layers[i].end, 0) << "layer " << i;
        expect_inside(layers[i], whole);
        if (i == 0) continue;
        const TimeSpan& earlier = ascending ? layers[i - 1] : layers[i];
        const TimeSpan& later = ascending ? layers[i] : layers[i - 1];
        EXPECT_LE(earlier.end, later.begin);
    }
}

class StepBenchRanks : public ::testing::TestWithParam<int> {};

TEST_P(StepBenchRanks, RecordsWhatHappenedInItsOrder) {
    test::run_training(
        GetParam(), {"train.accumulate=2", "distributed.bucket_policy=per_layer"},
        [](const TrainingJob& job) {
            StepBench bench(job);
            ASSERT_EQ(bench.buckets().size(), 3u);
            std::vector<StepTimeline> steps(12, bench.make_timeline());  // several epochs
            bench.run(steps);
            for (const StepTimeline& step : steps) {
                const TimeSpan whole{0, step.seconds};
                ASSERT_GE(step.micro_batches().size(), 1u);
                TimeSpan before{0, 0};
                for (const MicroBatchTimes& micro : step.micro_batches()) {
                    for (const TimeSpan* span : {&micro.data, &micro.forward, &micro.backward}) {
                        expect_inside(*span, whole);
                        EXPECT_LE(before.end, span->begin);
                        before = *span;
                    }
                    // In the epoch's last update a rank may have no samples, and so no forward.
                    if (micro.layer_forward.front().end > 0)
                        expect_layers_inside(micro.layer_forward, micro.forward, true);
                    expect_layers_inside(micro.layer_backward, micro.backward, false);
                }
                EXPECT_EQ(step.backward_end(), before.end);
                EXPECT_LE(step.communication.end, step.optimizer.begin);
                expect_inside(step.optimizer, whole);
                ASSERT_EQ(step.buckets.size(), 3u);
                for (std::size_t b = 0; b < 3; ++b) {
                    const BucketTimes& bucket = step.buckets[b];
                    EXPECT_EQ(bucket.ready, step.parameter_ready[bench.buckets()[b].last]);
                    EXPECT_LE(bucket.ready, bucket.issued);
                    EXPECT_LE(bucket.issued, bucket.done);
                    EXPECT_LE(bucket.done, step.communication.end);
                    EXPECT_GE(bucket.ready, step.micro_batches().back().backward.begin);
                }
                EXPECT_GE(step.early_updates, 0);
                EXPECT_LE(step.early_updates, step.communication.seconds());
                EXPECT_EQ(step.gather.seconds(), 0);
                EXPECT_EQ(step.exposed_communication(),
                          std::max(step.buckets.back().done - step.backward_end() - step.early_updates, 0.0));
            }
        });
}

TEST_P(StepBenchRanks, AllStepsAreOfOneSizeWithDropLast) {
    test::run_training(GetParam(),
                       {GetParam() == 1 ? "train.accumulate=5" : "train.accumulate=2", "train.batch_size=4",
                        "data.drop_last=true"},
                       [](const TrainingJob& job) {
                           StepBench bench(job);
                           std::vector<StepTimeline> steps(12, bench.make_timeline());  // several epochs
                           bench.run(steps);
                           for (const StepTimeline& step : steps)
                               EXPECT_EQ(std::ssize(step.micro_batches()), job.config.train.accumulate);
                       });
}

TEST_P(StepBenchRanks, APlanChangesNoBitOfTheWeights) {
    test::run_training(GetParam(), {}, [](const TrainingJob& job) {
        StepBench one(job), other(job);
        std::vector<StepTimeline> steps(2, one.make_timeline());
        for (const BucketPolicy policy : {BucketPolicy::single, BucketPolicy::per_layer, BucketPolicy::ddp}) {
            one.run(std::span(steps).first(2));  // as often, with the steps that are not counted
            DistributedConfig distributed;
            distributed.bucket_policy = policy;
            other.set_buckets(plan_buckets(other.graph(), distributed));
            other.run(std::span(steps).first(2));
            EXPECT_EQ(steps.front().buckets.size(), other.buckets().size());
        }
        EXPECT_EQ(weights(one), weights(other));
    });
}

TEST_P(StepBenchRanks, AnUpdateReadsGradientsAndReadsAndWritesWeightsAndState) {
    struct Case {
        std::vector<std::string> settings;
        std::int64_t states, ranks;  // that share the update
    };
    const Case cases[] = {
        {{"optim.name=sgd", "optim.momentum=0"}, 0, 1},
        {{"optim.name=sgd", "optim.momentum=0.9"}, 1, 1},
        {{"optim.name=adam", "optim.momentum=0"}, 2, 1},
        {{"optim.name=adam", "optim.momentum=0", "distributed.strategy=zero1"}, 2, GetParam()}};
    for (const Case& one : cases)
        test::run_training(GetParam(), one.settings, [&one](const TrainingJob& job) {
            StepBench bench(job);
            const auto arena = static_cast<std::int64_t>(bench.graph().parameter_arena().bytes());
            const StepBench::UpdateBytes update = bench.update_bytes();
            EXPECT_EQ(update.dtype, DType::f32);
            EXPECT_EQ(update.moved * one.ranks, arena * (3 + 2 * one.states));
            EXPECT_EQ(update.memory * one.ranks, arena * (2 + one.states));
        });
}

TEST_P(StepBenchRanks, ChoosesTheScheduleOfATrainingAndSaysHowManyStepsItMade) {
    struct Case {
        std::vector<std::string> settings;
        bool across;
    };
    const Case cases[] = {{{"distributed.across_steps=true", "distributed.bucket_policy=per_layer"}, true},
                          {{"distributed.across_steps=true", "distributed.bucket_policy=single"}, true},
                          {{"distributed.across_steps=auto", "distributed.bucket_policy=single"}, false},
                          {{"distributed.across_steps=false", "distributed.bucket_policy=per_layer"}, false}};
    for (const Case& one : cases)
        test::run_training(GetParam(), one.settings, [&one](const TrainingJob& job) {
            StepBench bench(job);
            bench.choose_schedule();
            const bool across = one.across && job.gradients.size() > 1;
            EXPECT_EQ(bench.spreads_across_steps(), across);
            std::vector<StepTimeline> steps(3, bench.make_timeline());
            EXPECT_EQ(bench.run(steps), across ? 4u : 3u);
        });
}

INSTANTIATE_TEST_SUITE_P(Ranks, StepBenchRanks, ::testing::Values(1, 2, 3, 4));

TEST(StepTimeline, CopiesOfTheSameGraphReuseTheirMemory) {
    test::run_training(1, {"distributed.bucket_policy=per_layer"}, [](const TrainingJob& job) {
        StepBench bench(job);
        std::vector<StepTimeline> steps(1, bench.make_timeline());
        const void* const before[] = {steps[0].buckets.data(), steps[0].parameter_ready.data(),
                                      steps[0].micro_batches().data()};
        bench.run(steps);
        const void* const after[] = {steps[0].buckets.data(), steps[0].parameter_ready.data(),
                                     steps[0].micro_batches().data()};
        EXPECT_EQ(std::memcmp(before, after, sizeof before), 0);
    });
}

}  // namespace
}  // namespace tutti
