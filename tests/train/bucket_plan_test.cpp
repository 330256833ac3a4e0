#include "tutti/train/bucket_plan.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

// Parameters of the given numbers of elements, each beginning at a multiple of 16 elements, as in the arena.
std::vector<ParameterSlice> slices(const std::vector<std::int64_t>& counts) {
    std::vector<ParameterSlice> result;
    std::int64_t offset = 0;
    for (const std::int64_t count : counts) {
        result.push_back({offset, count});
        offset += (count + 15) / 16 * 16;
    }
    return result;
}

std::vector<std::pair<std::size_t, std::size_t>> ranges(const std::vector<Bucket>& buckets) {
    std::vector<std::pair<std::size_t, std::size_t>> result;
    for (const Bucket& bucket : buckets) result.emplace_back(bucket.first, bucket.last);
    return result;
}

using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;

struct Case {
    std::string name;
    BucketPolicy policy;
    std::size_t first_limit, limit;  // in bytes; elements have four
    std::vector<std::int64_t> counts;
    Ranges expected;
};

class BucketPlan : public ::testing::TestWithParam<Case> {};

TEST_P(BucketPlan, CutsAsExpected) {
    const Case& c = GetParam();
    const auto parameters = slices(c.counts);
    std::vector<bool> ends;  // layers of two parameters
    for (std::size_t i = 0; i < parameters.size(); ++i) ends.push_back(i % 2 == 1);
    EXPECT_EQ(ranges(plan_buckets(parameters, ends, {c.policy, 4, c.limit, c.first_limit})), c.expected);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BucketPlan,
    ::testing::Values(
        Case{"NoParameters", BucketPolicy::ddp, 4, 4, {}, {}},
        Case{"OneParameter", BucketPolicy::ddp, 1000, 1000, {5}, {{0, 0}}},
        Case{"ClosesWhenTheLimitIsReached",
             BucketPolicy::ddp,
             40,
             40,
             {5, 5, 5, 5, 5},
             {{0, 1}, {2, 3}, {4, 4}}},
        Case{"FirstBucketHasItsOwnLimit",
             BucketPolicy::ddp,
             20,
             60,
             {5, 5, 5, 5, 5},
             {{0, 0}, {1, 3}, {4, 4}}},
        Case{"NeverSplitsAParameter", BucketPolicy::ddp, 4, 40, {1000, 1, 1000, 1}, {{0, 0}, {1, 2}, {3, 3}}},
        Case{"JustBelowTheLimitStaysOpen", BucketPolicy::ddp, 44, 44, {10, 1, 7}, {{0, 1}, {2, 2}}},
        Case{"GapsDoNotCount", BucketPolicy::ddp, 12, 12, {1, 1, 1, 1}, {{0, 2}, {3, 3}}},
        Case{"SingleTakesAll", BucketPolicy::single, 1, 1, {5, 5, 5}, {{0, 2}}},
        Case{"PerLayerEndsWithTheLayer",
             BucketPolicy::per_layer,
             1,
             1,
             {5, 5, 5, 5, 5},
             {{0, 1}, {2, 3}, {4, 4}}}),
    [](const auto& one) { return one.param.name; });

TEST(BucketPlanSlices, CoverAllParametersAndTheGapsInside) {
    const auto parameters = slices({5, 20, 7});
    const auto buckets = plan_buckets(parameters, {false, false, true}, {BucketPolicy::ddp, 4, 100, 100});
    ASSERT_EQ(buckets.size(), 2u);
    EXPECT_EQ(buckets[0], (Bucket{0, 1, 0, 36}));
    EXPECT_EQ(buckets[1], (Bucket{2, 2, 48, 7}));
}

constexpr double alpha = 1, beta = 0.25;  // seconds a transfer, seconds a byte
CostModel costs(double a = alpha, double b = beta) {
    return CostModel({{.from_bytes = 0, .alpha = a, .seconds_per_byte = b}});
}

TEST(FinishTime, FollowsTheRecurrence) {
    const auto parameters = slices({4, 4, 4});
    const std::vector<double> ready{1, 7, 30};
    const CostModel cost = costs();
    const BucketTiming timing{ready, cost, 4};
    const auto plan = plan_buckets(parameters, {true, true, true}, {BucketPolicy::per_layer});
    // T(16 bytes) = 5: done at 6; the second waits for its gradient, 7 + 5; the third too, 30 + 5.
    EXPECT_EQ(finish_time(plan, timing), 35);
    const std::vector<double> early{1, 2, 3};
    // One transfer at a time: 1 + 5 + 5 + 5.
    EXPECT_EQ(finish_time(plan, {early, cost, 4}), 16);
    EXPECT_EQ(finish_time({}, timing), 0);
}

TEST(FinishTime, CountsTheGapsThatAreSentAlong) {
    const auto parameters = slices({4, 4});
    const std::vector<double> ready{0, 0};
    const CostModel cost = costs();
    const auto plan = plan_buckets(parameters, {true, true}, {BucketPolicy::single});
    EXPECT_EQ(finish_time(plan, {ready, cost, 4}), alpha + beta * 4 * (16 + 4));
}

TEST(FinishTime, LatencyEndsEachTransferButKeepsNoneWaiting) {
    // 10 s a transfer, of which the next one waits for 2; ready at 1, 2 and 30.
    const std::vector<ParameterSlice> parameters{{0, 1}, {1, 1}, {2, 1}};
    const std::vector<double> ready{1, 2, 30};
    const CostModel slow({{.from_bytes = 0, .alpha = 10, .seconds_per_byte = 0}});
    const CostModel cost = slow.with_latency(8);
    const auto per_layer = plan_from_ends(parameters, std::vector<std::size_t>{0, 1, 2});
    EXPECT_EQ(finish_time(per_layer, {ready, slow, 4}), 40);
    EXPECT_EQ(finish_time(per_layer, {ready, cost, 4}), 40);
    const std::vector<double> early{1, 2, 3};
    EXPECT_EQ(finish_time(per_layer, {early, slow, 4}), 31);
    EXPECT_EQ(finish_time(per_layer, {early, cost, 4}), 1 + 3 * 2 + 8);
    EXPECT_EQ(finish_time({}, {early, cost, 4}), 0);
    // A byte takes 1 s: worth cutting only where that costs 2 s, not 10.
    const std::vector<double> spread{10, 24, 30};
    const CostModel by_byte({{.from_bytes = 0, .alpha = 10, .seconds_per_byte = 1}});
    const std::vector<bool> ends{true, true, true};
    EXPECT_EQ(plan_by_cost(parameters, ends, {spread, by_byte, 4}).size(), 2u);
    EXPECT_EQ(plan_by_cost(parameters, ends, {spread, by_byte.with_latency(8), 4}).size(), 3u);
}

TEST(FinishTime, CountsTheProcessorTimeThatEarlierTransfersTookFromBackward) {
    const std::vector<ParameterSlice> parameters{{0, 1}, {1, 1}, {2, 1}};
    const std::vector<double> ready{1, 5, 30};
    const auto plan = plan_from_ends(parameters, std::vector<std::size_t>{0, 1, 2});
    // 10 s on the link, of which 2 s on the core: from 1 to 11, to 21, and from 30 + 4 to 44.
    const CostModel ten({{.from_bytes = 0, .alpha = 10, .seconds_per_byte = 0}});
    const CostModel cost = ten.with_processor({2, 0});
    const BucketTiming timing{ready, cost, 4};
    EXPECT_EQ(finish_time(plan, timing), 44);
    struct Row {
        double seconds, stretched;
    };
    for (const Row& row : {Row{0, 0}, Row{1, 1},        // before the first
                           Row{5, 1 + 4 / 0.8},         // within the first
                           Row{9, 11}, Row{12, 14.75},  // at its end, 3 s into the second
                           Row{17, 21}, Row{29, 33},    // behind the second
                           Row{34, 39}, Row{40, 46}})   // 4 s into the third, behind it
        EXPECT_DOUBLE_EQ(stretched(row.seconds, plan, timing), row.stretched) << row.seconds;
    EXPECT_EQ(stretched(40, {}, timing), 40);
    EXPECT_EQ(stretched(40, plan, {ready, ten, 4}), 40);
}

TEST(FinishTime, OfATransferThatIsAllProcessorIsThatTime) {
    const std::vector<double> ready{1};
    const CostModel cost =
        CostModel({{.from_bytes = 0, .alpha = 1, .seconds_per_byte = 0}}).with_processor({1, 0.5});
    const std::vector<Bucket> plan{{0, 0, 0, 1}};
    EXPECT_EQ(finish_time(plan, {ready, cost, 4}), 1 + 3);
    EXPECT_EQ(stretched(6, plan, {ready, cost, 4}), 6 + 3);
}

struct CostCase {
    std::string name;
    double alpha, beta;
    std::vector<double> ready;
    Ranges expected;
};

class PlanByCost : public ::testing::TestWithParam<CostCase> {};

TEST_P(PlanByCost, CutsAsExpected) {
    const CostCase& c = GetParam();
    const auto parameters = slices({16, 16, 16, 16});  // 64 bytes each
    const CostModel cost = costs(c.alpha, c.beta);
    EXPECT_EQ(ranges(plan_by_cost(parameters, {true, true, true, true}, {c.ready, cost, 4})), c.expected);
}

INSTANTIATE_TEST_SUITE_P(
    Table, PlanByCost,
    ::testing::Values(
        CostCase{"FreeTransfersAreNotCut", 0, 0, {1, 2, 3, 4}, {{0, 3}}},
        CostCase{"DearCallsAreNotCut", 100, 0.001, {1, 2, 3, 4}, {{0, 3}}},
        // What is sent before the last gradient comes is hidden; cutting it finer would save nothing.
        CostCase{"TheTailIsTheLastLayerAlone", 0.1, 1.0 / 64, {1, 2, 3, 10}, {{0, 2}, {3, 3}}},
        CostCase{"ReadyAtOnceMeansOneBucket", 1, 1, {5, 5, 5, 5}, {{0, 3}}},
        // Where the link is the bottleneck, it must begin early: 1 + 4 transfers beats all others.
        CostCase{"ASlowLinkBeginsEarly", 0.5, 1, {1, 2, 3, 4}, {{0, 0}, {1, 3}}}),
    [](const auto& one) { return one.param.name; });

TEST(PlanByCostRandom, IsAsGoodAsTheBestOfAllCuts) {
    std::mt19937 random(7);
    const auto uniform = [&](double low, double high) {
        return std::uniform_real_distribution<double>(low, high)(random);
    };
    for (int round = 0; round < 200; ++round) {
        const std::size_t count = 1 + random() % 9;
        std::vector<std::int64_t> counts;
        std::vector<double> ready;
        std::vector<bool> ends;
        for (std::size_t i = 0; i < count; ++i) {
            // With the processor's part without gaps, which count inside of buckets only.
            counts.push_back(round % 2 == 1 ? 16 * (1 + static_cast<std::int64_t>(random() % 30))
                                            : 1 + static_cast<std::int64_t>(random() % 500));
            ready.push_back((ready.empty() ? 0 : ready.back()) + uniform(0, 2));
            ends.push_back(random() % 4 != 0);
        }
        // A kink, as where libraries change their protocol.
        CostModel cost({{0, uniform(0, 2), uniform(0, 2e-3)}, {800, uniform(0, 2), uniform(0, 2e-3)}});
        if (round % 2 == 1) cost = cost.with_processor({uniform(0, 0.5), uniform(0, 1e-3)});
        const auto parameters = slices(counts);
        const BucketTiming timing{ready, cost, 4};

        double best = std::numeric_limits<double>::infinity();
        std::size_t fewest = 0;
        for (unsigned cuts = 0; cuts < 1u << (count - 1); ++cuts) {
            std::vector<std::size_t> last;
            bool allowed = true;
            for (std::size_t i = 0; i + 1 < count; ++i)
                if ((cuts >> i & 1u) != 0) {
                    last.push_back(i);
                    allowed = allowed && ends[i];
                }
            if (!allowed) continue;
            last.push_back(count - 1);
            const double time = finish_time(plan_from_ends(parameters, last), timing);
            if (time < best || (time == best && last.size() < fewest)) fewest = last.size();
            best = std::min(best, time);
        }
        const auto plan = plan_by_cost(parameters, ends, timing);
        if (round % 2 == 1) {
            EXPECT_NEAR(finish_time(plan, timing), best, 1e-9) << "round " << round;
            continue;
        }
        EXPECT_EQ(finish_time(plan, timing), best) << "round " << round;
        EXPECT_EQ(plan.size(), fewest) << "round " << round;
        for (const Bucket& bucket : plan)
            EXPECT_TRUE(ends[bucket.last] || bucket.last + 1 == count) << "round " << round;
    }
}

TEST(PlanByCostRandom, NoParametersNoBuckets) {
    const CostModel cost = costs();
    EXPECT_TRUE(plan_by_cost({}, {}, {{}, cost, 4}).empty());
}

TEST(PlanFromEnds, GivesBackAPlanAndRefusesWhatIsNone) {
    const auto parameters = slices({5, 20, 7, 9});
    const auto plan = plan_from_ends(parameters, std::vector<std::size_t>{0, 2, 3});
    EXPECT_EQ(ranges(plan), (Ranges{{0, 0}, {1, 2}, {3, 3}}));
    EXPECT_EQ(plan[1], (Bucket{1, 2, 16, 39}));
    for (const std::vector<std::size_t>& bad :
         std::vector<std::vector<std::size_t>>{{}, {0, 2}, {2, 1, 3}, {1, 1, 3}, {0, 4}})
        EXPECT_THROW(plan_from_ends(parameters, bad), DataError);
}

}  // namespace
}  // namespace tutti
