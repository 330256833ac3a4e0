#include "tutti/train/plan_steps.hpp"

#include <gtest/gtest.h>

#include "training_fixture.hpp"
#include "tutti/train/step_bench.hpp"

namespace tutti {
namespace {

TEST(PlanSteps, TakesTurnsForwardsAndBackwards) {
    test::run_training(1, {}, [](const TrainingJob& job) {
        const StepBench bench(job);
        const std::vector<BenchPlan> plans{{{}, {Bucket{0, 0, 0, 1}}}, {{}, {Bucket{0, 1, 0, 2}}}};
        std::string order;
        std::size_t told = 0;
        double clock = 0;
        const PlanSteps measured(
            plans, {5, 1}, bench.make_timeline(),
            [&](const BenchPlan& plan, std::span<StepTimeline> steps) {
                for (StepTimeline& step : steps) {
                    order += plan.buckets.front().last == 0 ? 'a' : 'b';
                    step.seconds = ++clock;
                }
            },
            [&](std::size_t round, std::size_t rounds) {
                EXPECT_EQ(round, told++);
                EXPECT_EQ(rounds, 4u);
                order += ' ';
            });
        EXPECT_EQ(order, " ab aabb bbaa ab");
        std::vector<double> seconds;
        for (const StepTimeline& step : measured.steps(1)) seconds.push_back(step.seconds);
        EXPECT_EQ(seconds, (std::vector<double>{5, 6, 7, 8, 12}));
    });
}

}  // namespace
}  // namespace tutti
