// Steps that wait instead of computing.
#include "tutti/train/step_replay.hpp"

#include <gtest/gtest.h>

#include "training_fixture.hpp"
#include "tutti/base/error.hpp"
#include "tutti/train/step_bench.hpp"

namespace tutti {
namespace {

StepProfile even_profile(std::size_t layers, double seconds) {
    return {.data = seconds,
            .layer_forward = std::vector<double>(layers, seconds),
            .layer_backward = std::vector<double>(layers, seconds),
            .loss_forward = seconds,
            .loss_backward = seconds,
            .optimizer = seconds};
}

class StepReplayRanks : public ::testing::TestWithParam<int> {};

TEST_P(StepReplayRanks, LastsAsLongAsItsProfileAndSendsEveryBucket) {
    test::run_training(GetParam(), {}, [](const TrainingJob& job) {
        const StepBench bench(job);
        const std::size_t layers = bench.graph().report().size();
        constexpr double each = 2e-4;
        StepReplay replay(bench.graph(), even_profile(layers, each), 2, job.gradients, job.control,
                          bench.buckets());
        DistributedConfig per_layer;
        per_layer.bucket_policy = BucketPolicy::per_layer;
        replay.set_buckets(plan_buckets(bench.graph(), per_layer));
        std::vector<StepTimeline> steps(3, StepTimeline(bench.graph(), 2));
        replay.run(steps);
        double all = 0;
        for (const StepTimeline& step : steps) {
            all += step.seconds;
            ASSERT_EQ(step.micro_batches().size(), 2u);
            ASSERT_EQ(step.buckets.size(), 3u);
            double before = step.micro_batches()[1].backward.begin;
            for (const BucketTimes& bucket : step.buckets) {
                EXPECT_LE(before, bucket.ready);
                EXPECT_LE(bucket.ready, bucket.issued);
                EXPECT_LE(bucket.issued, bucket.done);
                before = bucket.ready;
            }
            for (const double ready : step.parameter_ready) EXPECT_GT(ready, 0);
        }
        // A wait never ends early: what one is late, only the next ones are shorter. Two micro-batches of
        // data, layers twice, and loss twice; and one optimizer.
        const double parts = 2.0 * (1 + 2 * static_cast<double>(layers) + 2) + 1;
        EXPECT_GE(all, 3 * parts * each - 1e-6);
    });
}

TEST_P(StepReplayRanks, SumsGradientsOfTheArena) {
    test::run_training(GetParam(), {}, [](const TrainingJob& job) {
        const StepBench bench(job);
        const TensorView arena = bench.graph().gradient_arena();
        auto* const gradients = reinterpret_cast<float*>(arena.data);
        std::fill_n(gradients, arena.count(), 1.0F);
        StepReplay replay(bench.graph(), even_profile(bench.graph().report().size(), 0), 1, job.gradients,
                          job.control, bench.buckets());
        std::vector<StepTimeline> steps(1, bench.make_timeline());
        replay.run(steps);
        for (const Bucket& bucket : bench.buckets())
            EXPECT_EQ(gradients[bucket.offset], static_cast<float>(job.control.size()));
    });
}

TEST_P(StepReplayRanks, SendsBucketsInPieces) {
    test::run_training(GetParam(), {}, [](const TrainingJob& job) {
        const StepBench bench(job);
        const TensorView arena = bench.graph().gradient_arena();
        auto* const gradients = reinterpret_cast<float*>(arena.data);
        std::fill_n(gradients, arena.count(), 1.0F);
        StepReplay replay(bench.graph(), even_profile(bench.graph().report().size(), 1e-5), 1, job.gradients,
                          job.control, bench.buckets());
        DistributedConfig per_layer;
        per_layer.bucket_policy = BucketPolicy::per_layer;
        const std::vector<Bucket> plan = plan_buckets(bench.graph(), per_layer);
        replay.set_buckets(plan, {0, 1, 0, 2, 1, 0});
        replay.spread_across_steps(job.control.size() > 1);
        std::vector<StepTimeline> steps(1, bench.make_timeline());
        replay.run(steps);
        // Across steps one more, which is not counted, went before it.
        const auto ranks = static_cast<float>(job.control.size());
        for (const Bucket& bucket : plan)
            for (const std::int64_t i : {bucket.offset, bucket.offset + bucket.count - 1})
                EXPECT_EQ(gradients[i], job.control.size() > 1 ? ranks * ranks : ranks);
        ASSERT_EQ(steps[0].buckets.size(), plan.size());
        for (const BucketTimes& bucket : steps[0].buckets) {
            EXPECT_LE(bucket.ready, bucket.issued);
            EXPECT_LT(bucket.issued, bucket.done);
        }
        // The first ends with its last piece, which is the last transfer of all.
        for (const BucketTimes& bucket : steps[0].buckets) EXPECT_GE(steps[0].buckets[0].done, bucket.done);
    });
}

INSTANTIATE_TEST_SUITE_P(Ranks, StepReplayRanks, ::testing::Values(1, 2, 3, 4));

TEST(StepReplay, RefusesAProfileOfAnotherModel) {
    test::run_training(1, {}, [](const TrainingJob& job) {
        const StepBench bench(job);
        EXPECT_THROW(StepReplay(bench.graph(), even_profile(1, 0), 1, job.gradients, job.control, {}),
                     DataError);
    });
}

}  // namespace
}  // namespace tutti
