#include "tutti/train/bucket_plan.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tutti
