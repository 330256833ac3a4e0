#include "tutti/train/schedule_choice.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/thread_communicator.hpp"

namespace tutti {
namespace {

TEST(ScheduleForecast, PaysWhereItSavesATwentieth) {
    EXPECT_TRUE((ScheduleForecast{94.9, 100}.across_pays()));
    EXPECT_FALSE((ScheduleForecast{95.1, 100}.across_pays()));
    EXPECT_FALSE((ScheduleForecast{100, 100}.across_pays()));
    EXPECT_FALSE((ScheduleForecast{0, 0}.across_pays()));
}

TEST(ScheduleForecast, IsWorthRealStepsOfBothUnlessOneIsClearlyWorse) {
    struct Row {
        double across, within;
        ScheduleTrials wanted;
    };
    for (const Row& row :
         {Row{84, 100, ScheduleTrials::across}, Row{86, 100, ScheduleTrials::across_first},
          Row{94.9, 100, ScheduleTrials::across_first}, Row{95.1, 100, ScheduleTrials::within_first},
          Row{100, 100, ScheduleTrials::within_first}, Row{100, 86, ScheduleTrials::within_first},
          Row{100, 84, ScheduleTrials::within}, Row{0, 0, ScheduleTrials::within_first}}) {
        SCOPED_TRACE(std::to_string(row.across) + " and " + std::to_string(row.within));
        const ScheduleForecast forecast{row.across, row.within};
        EXPECT_EQ(forecast.worth_trying(), row.wanted);
        EXPECT_EQ(forecast.worth_trying(0), row.across == row.within  ? ScheduleTrials::within_first
                                            : row.across < row.within ? ScheduleTrials::across
                                                                      : ScheduleTrials::within);
        EXPECT_TRUE(tries_both(forecast.worth_trying(1)));
    }
}

TEST(ScheduleForecast, SaysWhatIsTriedAndWhy) {
    const ScheduleForecast forecast{.across = 0.08, .within = 0.1};
    const std::string change = describe(forecast);
    EXPECT_EQ(describe(forecast, ScheduleTrials::across, 0.15),
              "buckets stay on the network during the next forward: " + change +
                  ", which is not wrong by 15 % of a step");
    EXPECT_EQ(describe(forecast, ScheduleTrials::within, 0.15),
              "transfers end with their step: " + change + ", which is not wrong by 15 % of a step");
    EXPECT_EQ(describe(forecast, ScheduleTrials::within_first, 0.25),
              "buckets are tried under both schedules: " + change + ", which may be wrong by 25 % of a step");
}

TEST(ScheduleForecast, SaysWhatWouldChange) {
    EXPECT_EQ(
        describe(ScheduleForecast{.across = 0.0119, .within = 0.012}),
        "on the network during the next one's forward they would change a step from 12 to 11.9 ms, by the "
        "model");
    EXPECT_EQ(describe(ScheduleForecast{.across = 1.2341, .within = 12.3456}),
              "on the network during the next one's forward they would change a step from 12346 to 1234 ms, "
              "by the model");
}

TEST(ScheduleForecast, IsRank0sOnEveryRank) {
    test::run_on_threads(3, [](Communicator& world) {
        const double own = 1 + world.rank();
        const ScheduleForecast agreed = agree_on({own, 10 * own}, world);
        EXPECT_EQ(agreed.across, 1);
        EXPECT_EQ(agreed.within, 10);
    });
}

TEST(AgreeOnNumbers, GivesRank0sHoweverLongTheOthersAre) {
    using Order = std::vector<std::size_t>;
    for (const Order& wanted : {Order{1, 0, 1, 2}, Order{2, 1, 0}, Order{}})
        test::run_on_threads(3, [&](Communicator& world) {
            const std::vector<Order> own{wanted, {0, 1, 2}, {0, 1, 0, 2, 0, 0}};
            EXPECT_EQ(agree_on_numbers(own[static_cast<std::size_t>(world.rank())], world), wanted);
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

TEST(MeasureLatency, IsTheSameOnAllRanksAndZeroWhereThereIsNoRoom) {
    test::run_on_threads(3, [](Communicator& world) {
        const auto control = world.duplicate();
        const auto device = make_cpu_device(1);
        std::vector<float> arena(100, 3);
        const double seconds =
            measure_latency(world, *control, device->ops(DType::f32), view_of(std::span(arena)));
        EXPECT_GE(seconds, 0);
        double of_rank_0 = seconds;
        control->broadcast(view_of(std::span(&of_rank_0, 1)), 0).wait();
        EXPECT_EQ(seconds, of_rank_0);
        EXPECT_EQ(
            measure_latency(world, *control, device->ops(DType::f32), view_of(std::span(arena).first(7))), 0);
    });
}

TEST(MeasureArenaInParts, IsTheSameOnAllRanksAndInfiniteWhereThereAreNoParts) {
    test::run_on_threads(3, [](Communicator& world) {
        const auto control = world.duplicate();
        const auto device = make_cpu_device(1);
        const auto measured = [&](std::span<float> arena) {
            return measure_arena_in_parts(world, *control, device->ops(DType::f32), view_of(arena));
        };
        for (const std::size_t count : {4u, 5u, 17u, 1000u}) {
            std::vector<float> arena(count, 3);
            const double seconds = measured(arena);
            EXPECT_GT(seconds, 0) << count;
            EXPECT_TRUE(std::isfinite(seconds)) << count;
            double of_rank_0 = seconds;
            control->broadcast(view_of(std::span(&of_rank_0, 1)), 0).wait();
            EXPECT_EQ(seconds, of_rank_0) << count;
        }
        std::vector<float> small(3, 3);
        EXPECT_TRUE(std::isinf(measured(small)));
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
