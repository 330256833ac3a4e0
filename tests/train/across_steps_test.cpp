// The schedule across steps as a model: orders, pieces, plans and what no plan beats.
#include "tutti/train/across_steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "support/thread_communicator.hpp"

namespace tutti {
namespace {

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

TEST(StepAcross, SlowsDownWhatIsComputedBesideTransfers) {
    AcrossTiming timing = three_layers();
    timing.taken_per_element = 0.005;
    // 0.05 s each, all beside the computation: 11 without.
    const std::vector<std::size_t> own{0, 1, 2};
    EXPECT_DOUBLE_EQ(step_across(three, own, std::vector{.1, .1, .1}, timing), 11 + 3 * 0.05);
    timing.taken_per_element = 0;
    timing.taken_per_transfer = 1;
    // On the link from 2 to 6, from 6 + 1 to 11, to 15. Layer 0 waits until 11 and goes on at three quarters
    // of its speed, layer 1 until 15.
    const std::vector<std::size_t> other{0, 2, 1};
    EXPECT_DOUBLE_EQ(step_across(three, other, std::vector{4., 4., 4.}, timing), 15 + 2.5 + 0.5);
    // A transfer that is all processor, from 2 to 6: backward stands still.
    timing.taken_per_transfer = 4;
    const std::vector<Bucket> one{{0, 2, 0, 30}};
    timing.ready = {2, 2, 2};
    EXPECT_DOUBLE_EQ(step_across(one, std::vector<std::size_t>{0}, std::vector{1.}, timing), 11 + 4);
}

TEST(StepWithin, SlowsDownBackwardBesideTransfers) {
    AcrossTiming timing = three_layers();
    timing.taken_per_transfer = 0.05;
    // The last is ready at 6.1, when backward ends, too; between 1, forward 3.5, loss 0.5.
    EXPECT_DOUBLE_EQ(step_within(three, std::vector{.1, .1, .1}, timing), 6.2 + 5);
    timing.backward_end = 8;
    EXPECT_DOUBLE_EQ(step_within(three, std::vector{.1, .1, .1}, timing), 8.15 + 5);
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
            ASSERT_EQ(communicator.sums_in_fixed_order(), ranks == 2);
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
            EXPECT_EQ(communicator.sums_in_fixed_order(), ranks < 3);
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

TEST(AttainableAcross, CountsAllGradientsAsTheyWereMeasured) {
    AcrossTiming timing = three_layers();
    // From second 2 on, 20 s; then the last layer and the loss.
    EXPECT_DOUBLE_EQ(attainable_across(parameters, {timing.ready, {}, 4}, timing, 20), 2 + 20 + 1 + 0.5);
    // Less than the model says: the first layer's, ready last, 6 + 1, and all of forward.
    timing.ready = {2, 4, 6};
    EXPECT_DOUBLE_EQ(attainable_across(parameters, {timing.ready, cost_of(1), 4}, timing, 1), 11)
        << "the computation";
    timing.ready = {2, 4, 20};
    timing.backward_end = 20;
    EXPECT_DOUBLE_EQ(attainable_across(parameters, {timing.ready, cost_of(1), 4}, timing, 3),
                     20 + 3 + 3.5 + 0.5);
}

TEST(AttainableAcross, IsNotAboveAnyPlanWhereSeveralTransfersAreCheaperThanOne) {
    // 2 s for 10 elements, 7 for 20, 17 for 30.
    const CostModel cost({{0, 1, 0.025}, {40, -3, 0.125}, {80, -13, 0.25}});
    const AcrossTiming timing = three_layers();
    const double bound = attainable_across(parameters, {timing.ready, cost, 4}, timing);
    // The first layer's, 6 + 2, and all of forward; all of them, 6 s in three transfers, are there before.
    EXPECT_DOUBLE_EQ(bound, 8 + 3.5 + 0.5);
    for (const auto& ends : {std::vector<std::size_t>{0, 1, 2}, {0, 2}, {1, 2}, {2}}) {
        const auto plan = plan_from_ends(parameters, ends);
        const auto seconds = transfer_seconds(plan, {timing.ready, cost, 4});
        EXPECT_GE(step_across(plan, issue_order(plan, seconds, timing), seconds, timing), bound - 1e-12);
    }
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

TEST(StepAcross, LatencyEndsEachTransferButKeepsNoneWaiting) {
    // On the link from 2 to 6, 6 to 10, 10 to 14, each there 3 later: layer 0 waits until 17.
    AcrossTiming timing = three_layers();
    timing.latency = 3;
    EXPECT_DOUBLE_EQ(step_across(three, std::vector<std::size_t>{0, 1, 2}, std::vector{4., 4., 4.}, timing),
                     17 + 3.5 + 0.5);
    EXPECT_DOUBLE_EQ(step_within(three, std::vector{4., 4., 4.}, timing), 17 + 5);
}

TEST(PlanAcrossSteps, IsNoWorseThanBucketsOfEqualSizes) {
    std::mt19937 generator(7);
    std::uniform_real_distribution<double> seconds(0.1, 1);
    std::uniform_int_distribution<std::int64_t> counts(1, 100);
    const CostModel cost({{.from_bytes = 0, .alpha = 0.3, .seconds_per_byte = 0.01}});
    for (int round = 0; round < 100; ++round) {
        AcrossTiming timing;
        timing.per_piece = round % 2 == 0 ? 0.1 : std::numeric_limits<double>::infinity();
        std::vector<ParameterSlice> slices;
        std::int64_t offset = 0;
        for (int layer = 0; layer < 16; ++layer) {
            slices.push_back({offset, counts(generator)});
            offset += slices.back().count;
            timing.backward_end += seconds(generator);
            timing.ready.push_back(timing.backward_end);
        }
        for (std::size_t layer = slices.size(); layer-- > 0;)
            timing.layers.push_back({layer, layer + 1, seconds(generator) / 2});
        const std::vector<bool> ends(slices.size(), true);
        const AcrossPlan plan = plan_across_steps(slices, ends, cost, 4, timing);
        for (const std::size_t parts : {4u, 8u}) {
            const auto limit = static_cast<std::size_t>(4 * (offset / static_cast<std::int64_t>(parts)));
            const auto equal = plan_buckets(slices, ends, {BucketPolicy::ddp, 4, limit, limit});
            const auto transfers = transfer_seconds(equal, {timing.ready, cost, 4});
            EXPECT_LE(plan.seconds,
                      step_across(equal, issue_order(equal, transfers, timing), transfers, timing) + 1e-9)
                << "round " << round << ", " << parts << " parts";
        }
    }
}

}  // namespace
}  // namespace tutti
