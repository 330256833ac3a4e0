#include "tutti/train/schedule_choice.hpp"

#include <gtest/gtest.h>

#include "support/thread_communicator.hpp"

namespace tutti {
namespace {

TEST(ScheduleForecast, PaysWhereItSavesATwentieth) {
    EXPECT_TRUE((ScheduleForecast{94.9, 100}.across_pays()));
    EXPECT_FALSE((ScheduleForecast{95.1, 100}.across_pays()));
    EXPECT_FALSE((ScheduleForecast{100, 100}.across_pays()));
    EXPECT_FALSE((ScheduleForecast{0, 0}.across_pays()));
}

TEST(ScheduleForecast, SaysWhatWouldChange) {
    EXPECT_EQ(
        describe(ScheduleForecast{.across = 0.0119, .within = 0.012}),
        "on the network during the next one's forward they would change a step from 12 to 11.9 ms, by the "
        "model");
}

TEST(ScheduleForecast, IsRank0sOnEveryRank) {
    test::run_on_threads(3, [](Communicator& world) {
        const double own = 1 + world.rank();
        const ScheduleForecast agreed = agree_on({own, 10 * own}, world);
        EXPECT_EQ(agreed.across, 1);
        EXPECT_EQ(agreed.within, 10);
    });
}

TEST(AgreeOnOrder, GivesRank0sHoweverLongTheOthersAre) {
    using Order = std::vector<std::size_t>;
    for (const Order& wanted : {Order{1, 0, 1, 2}, Order{2, 1, 0}, Order{}})
        test::run_on_threads(3, [&](Communicator& world) {
            const std::vector<Order> own{wanted, {0, 1, 2}, {0, 1, 0, 2, 0, 0}};
            EXPECT_EQ(agree_on_order(own[static_cast<std::size_t>(world.rank())], world), wanted);
        });
}

TEST(MeasureSmallAllReduce, IsTheSameTimeOnAllRanks) {
    test::run_on_threads(3, [](Communicator& world) {
        const auto control = world.duplicate();
        const double seconds = measure_small_all_reduce(world, *control);
        EXPECT_GT(seconds, 0);
        double of_rank_0 = seconds;
        control->broadcast(view_of(std::span(&of_rank_0, 1)), 0).wait();
        EXPECT_EQ(seconds, of_rank_0);
    });
}

/// Two layers of 10 elements each, 1 s + 0.1 s a byte; backward to 4, between 1, forward 3 and 4, loss 1.
TEST(PlanSchedules, GivesEachScheduleItsPlanAndItsStep) {
    const std::vector<ParameterSlice> parameters{{0, 10}, {10, 10}};
    AcrossTiming timing;
    timing.ready = {2, 4};
    timing.backward_end = 4;
    timing.between = 1;
    timing.layers = {{1, 2, 3}, {0, 1, 4}};
    timing.loss = 1;
    const CostModel cost({{.from_bytes = 0, .alpha = 1, .seconds_per_byte = 0.1}});
    const SchedulePlans plans = plan_schedules(parameters, {true, true}, {timing.ready, cost, 4}, timing);
    // 5 s each, on the link from 2 to 12 (in one from 4 to 13).
    EXPECT_EQ(plans.within, (std::vector<Bucket>{{0, 0, 0, 10}, {1, 1, 10, 10}}));
    EXPECT_DOUBLE_EQ(plans.forecast.within, 12 + 1 + 7 + 1);
    // Bucket 1 is sent last, and the first layer waits for it: 12 and forward and loss.
    EXPECT_EQ(plans.across.buckets, plans.within);
    EXPECT_DOUBLE_EQ(plans.forecast.across, 12 + 7 + 1);
    EXPECT_DOUBLE_EQ(plans.forecast.across, plans.across.seconds);
}

}  // namespace
}  // namespace tutti
