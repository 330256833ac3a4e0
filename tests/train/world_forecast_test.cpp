#include "tutti/train/world_forecast.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// Two layers of 1000 bytes: ready 1 s and 3 s after the beginning of backward, which ends at 3 s. Two ranks,
/// 0.1 s a transfer and 1 ms a byte. Before backward 4 s, after it 0.5 s.
MeasuredWorld two_layers() {
    MeasuredWorld measured;
    measured.world = 2;
    measured.parameters = {{0, 250}, {250, 250}};
    measured.layer_ends = {true, true};
    measured.measurement.before = 4;
    measured.measurement.ready = {1, 3};
    measured.measurement.backward_end = 3;
    measured.measurement.rest = 0.5;
    measured.cost = CostModel({{0, 0.1, 1e-3}});
    return measured;
}

PlanRequest both() {
    return {{BucketPolicy::single, BucketPolicy::per_layer}, {}};
}

TEST(WorldForecast, of_the_measured_ranks_is_their_model) {
    const WorldForecast forecast = forecast_world(two_layers(), 2, AllReduceShape::ring, both());
    ASSERT_EQ(forecast.plans.size(), 2U);
    // In one bucket: 4 + 3 + (0.1 + 2) + 0.5. By layers: the first is done at 2.1, the second at 4.1.
    EXPECT_NEAR(forecast.plans[0].step, 9.6, 1e-12);
    EXPECT_NEAR(forecast.plans[0].exposed, 2.1, 1e-12);
    EXPECT_NEAR(forecast.plans[1].step, 8.6, 1e-12);
    EXPECT_NEAR(forecast.plans[1].exposed, 1.1, 1e-12);
    EXPECT_EQ(forecast.best, 1U);
    EXPECT_NEAR(forecast.compute, 7.5, 1e-12);
}

TEST(WorldForecast, of_more_ranks_in_a_ring_has_longer_transfers) {
    // 4 ranks: 3 × 0.1 s a transfer, 1.5 × 1 ms a byte.
    const WorldForecast forecast = forecast_world(two_layers(), 4, AllReduceShape::ring, both());
    EXPECT_NEAR(forecast.plans[0].step, 4 + 3 + 0.3 + 3 + 0.5, 1e-12);
    EXPECT_NEAR(forecast.plans[1].step, 4 + 3 + 1.8 + 0.5, 1e-12);
    EXPECT_EQ(forecast.best, 1U);
}

TEST(WorldForecast, goes_by_hosts_where_these_add_up_first) {
    MeasuredWorld measured = two_layers();
    measured.world = 8;
    measured.ranks_per_host = 4;
    // 4 hosts: as the 4 ranks above.
    const WorldForecast four = forecast_world(measured, 16, AllReduceShape::ring, both());
    EXPECT_EQ(four.at.hosts, 4);
    EXPECT_EQ(four.at.each, 4);
    EXPECT_NEAR(four.plans[0].step, 4 + 3 + 0.3 + 3 + 0.5, 1e-12);
    EXPECT_FALSE(costs_as_measured(measured, four));
    // Three on each of as many hosts as measured.
    const WorldForecast fewer = forecast_world(measured, 6, AllReduceShape::tree, both());
    EXPECT_EQ(fewer.at.each, 3);
    EXPECT_NEAR(fewer.plans[0].step, 9.6, 1e-12);
    EXPECT_TRUE(costs_as_measured(measured, fewer));
    EXPECT_THROW(forecast_world(measured, 7, AllReduceShape::ring, both()), UsageError);
}

TEST(WorldForecast, counts_what_transfers_take_from_the_computation) {
    MeasuredWorld measured = two_layers();
    measured.cost = measured.cost.with_processor({0.05, 0.2e-3});
    // In one bucket nothing is left to compute beside it. By layers: 1 to 2.1, of it 0.25 from backward, so
    // that the second is ready at 3.25.
    const WorldForecast same = forecast_world(measured, 2, AllReduceShape::ring, both());
    EXPECT_NEAR(same.plans[0].step, 9.6, 1e-12);
    EXPECT_NEAR(same.plans[1].step, 4 + 3.25 + 1.1 + 0.5, 1e-12);
    EXPECT_NEAR(same.compute, 7.5, 1e-12);
    // 4 ranks: 3 × 0.05 s and 1.5 × 0.2 ms a byte, 0.45 s.
    const WorldForecast four = forecast_world(measured, 4, AllReduceShape::ring, both());
    EXPECT_NEAR(four.plans[1].step, 4 + 3.45 + 1.8 + 0.5, 1e-12);
}

TEST(WorldForecast, the_best_of_the_plans_counts_what_transfers_take_and_their_search_does_not) {
    // Each transfer takes its whole time from the computation: by layers nothing is hidden, and more is sent.
    MeasuredWorld measured = two_layers();
    measured.cost = measured.cost.with_processor({1.2, 1e-3});
    PlanRequest request = both();
    request.policies.push_back(BucketPolicy::cost_model);
    const WorldForecast forecast = forecast_world(measured, 2, AllReduceShape::ring, request);
    ASSERT_EQ(forecast.plans.size(), 2U);
    // cost_model is by layers, too.
    EXPECT_EQ(forecast.plans[1].plan.names.size(), 2U);
    EXPECT_NEAR(forecast.plans[0].searched, 9.6, 1e-12);
    EXPECT_NEAR(forecast.plans[1].searched, 8.6, 1e-12);
    EXPECT_GT(forecast.plans[1].step, forecast.plans[0].step);
    EXPECT_EQ(forecast.best, 0U);
    EXPECT_EQ(forecast.step(), forecast.plans[0].step);
}

TEST(WorldForecast, latency_makes_one_bucket_the_best_of_many_ranks) {
    // 64 ranks in a ring: 6.3 s a transfer, 1.97 s for 1000 bytes.
    const WorldForecast ring = forecast_world(two_layers(), 64, AllReduceShape::ring, both());
    EXPECT_EQ(ring.best, 0U);
    EXPECT_NEAR(ring.step(), 7 + 6.3 + 2 * 63.0 / 64 * 2 + 0.5, 1e-12);
    // In a tree 0.6 s, and 1 s as on two: hidden for a second.
    const WorldForecast tree = forecast_world(two_layers(), 64, AllReduceShape::tree, both());
    EXPECT_EQ(tree.best, 1U);
    EXPECT_NEAR(tree.step(), 7 + 1.6 + 0.5, 1e-12);
}

TEST(WorldForecast, of_one_rank_computes_alone) {
    const WorldForecast forecast = forecast_world(two_layers(), 1, AllReduceShape::ring, both());
    EXPECT_TRUE(forecast.plans.empty());
    EXPECT_NEAR(forecast.step(), 7.5, 1e-12);
}

TEST(WorldForecast, tries_the_schedule_across_steps_where_the_measured_ranks_could) {
    MeasuredWorld measured = two_layers();
    measured.across = true;
    measured.across_timing.ready = measured.measurement.ready;
    measured.across_timing.backward_end = 3;
    measured.across_timing.between = 0.5;
    // The first parameter is the second layer's.
    measured.across_timing.layers = {{1, 2, 2.0}, {0, 1, 2.0}};
    const WorldForecast forecast = forecast_world(measured, 2, AllReduceShape::ring, both());
    ASSERT_EQ(forecast.plans.size(), 4U);
    EXPECT_TRUE(forecast.plans[forecast.best].plan.across);
    // The first layer waits for its bucket, done at 4.1; then both layers compute.
    EXPECT_NEAR(forecast.step(), 4.1 + 4, 1e-12);
    EXPECT_NEAR(forecast.plans[forecast.best].exposed, 0.6, 1e-12);
}

TEST(WorldForecast, never_cuts_buckets_on_ranks_that_were_not_measured) {
    MeasuredWorld measured = two_layers();
    measured.across = true;
    measured.across_timing = {.ready = measured.measurement.ready,
                              .backward_end = 3,
                              .between = 0.5,
                              .layers = {{1, 2, 2.0}, {0, 1, 2.0}},
                              .per_piece = 0};
    measured.cost = CostModel({{0, 0, 5e-3}});
    const auto in_pieces = [](const WorldForecast& forecast) {
        return std::ranges::any_of(forecast.plans, [](const PlanForecast& one) {
            return one.plan.order.size() > one.plan.buckets.size();
        });
    };
    EXPECT_TRUE(in_pieces(forecast_world(measured, 2, AllReduceShape::ring, both())));
    EXPECT_FALSE(in_pieces(forecast_world(measured, 3, AllReduceShape::ring, both())));
}

TEST(WorldForecast, refuses_no_ranks) {
    EXPECT_THROW(forecast_world(two_layers(), 0, AllReduceShape::ring, both()), UsageError);
}

}  // namespace
}  // namespace tutti
