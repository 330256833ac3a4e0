#include "tutti/comm/cost_scaling.hpp"

#include <gtest/gtest.h>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// Of 4 ranks: 60 µs, then 12 ns a byte.
CostModel of_four() {
    return CostModel({{0, 60e-6, 12e-9}}).with_latency(30e-6);
}

TEST(CostOn, a_ring_follows_from_its_messages_and_bytes) {
    // 4 ranks: 6 messages, 1.5 S/B. 8 ranks: 14 messages, 1.75 S/B. 2 ranks: 2 messages, 1 S/B.
    const CostModel eight = cost_on(of_four(), 4, 8, AllReduceShape::ring);
    EXPECT_NEAR(eight.seconds(0), 140e-6, 1e-12);
    EXPECT_NEAR(eight.seconds(1e6), 140e-6 + 14e-3, 1e-10);
    EXPECT_NEAR(eight.latency(), 70e-6, 1e-12);
    const CostModel two = cost_on(of_four(), 4, 2, AllReduceShape::ring);
    EXPECT_NEAR(two.seconds(0), 20e-6, 1e-12);
    EXPECT_NEAR(two.seconds(1e6), 20e-6 + 8e-3, 1e-10);
}

TEST(CostOn, a_tree_grows_with_the_logarithm_and_its_bytes_stay) {
    const CostModel many = cost_on(of_four(), 4, 64, AllReduceShape::tree);
    EXPECT_NEAR(many.seconds(0), 180e-6, 1e-12);
    EXPECT_NEAR(many.seconds(1e6), 180e-6 + 12e-3, 1e-10);
}

TEST(CostOn, as_many_ranks_as_measured_cost_what_was_measured) {
    const CostModel pieces =
        CostModel({{0, 40e-6, 2e-9}, {1e5, -60e-6, 3e-9}, {1e6, 1e-3, 2.5e-9}}).with_latency(5e-6);
    for (const AllReduceShape shape : {AllReduceShape::ring, AllReduceShape::tree}) {
        const CostModel same = cost_on(pieces, 3, 3, shape);
        for (const double bytes : {0.0, 5e4, 1e5, 3e5, 1e6, 1e8})
            EXPECT_DOUBLE_EQ(same.seconds(bytes), pieces.seconds(bytes)) << bytes;
        EXPECT_DOUBLE_EQ(same.latency(), pieces.latency());
    }
}

TEST(CostOn, pieces_that_meet_still_meet) {
    // 40 µs + 2 ns a byte and −60 µs + 3 ns a byte meet at 100 kB.
    const CostModel pieces({{0, 40e-6, 2e-9}, {1e5, -60e-6, 3e-9}});
    const CostModel eight = cost_on(pieces, 2, 8, AllReduceShape::ring);
    EXPECT_NEAR(eight.seconds(99'999), eight.seconds(100'001), 2e-8);  // two bytes
    // 7 × 40 µs + 1.75 × (3 ns × 200 kB − 100 µs)
    EXPECT_NEAR(eight.seconds(2e5), 280e-6 + 1.75 * 500e-6, 1e-10);
}

TEST(CostOn, the_processors_part_grows_with_messages_and_bytes) {
    const CostModel cost = of_four().with_processor({6e-6, 3e-9});
    const CostModel eight = cost_on(cost, 4, 8, AllReduceShape::ring);
    EXPECT_NEAR(eight.processor().per_transfer, 14e-6, 1e-15);
    EXPECT_NEAR(eight.processor().seconds_per_byte, 3.5e-9, 1e-18);
}

TEST(CostOn, one_rank_transfers_nothing) {
    EXPECT_EQ(cost_on(of_four(), 4, 1, AllReduceShape::ring).seconds(1e9), 0);
}

TEST(CostOn, refuses_what_has_no_links) {
    EXPECT_THROW(cost_on(of_four(), 1, 4, AllReduceShape::ring), UsageError);
    EXPECT_THROW(cost_on(of_four(), 4, 0, AllReduceShape::ring), UsageError);
}

}  // namespace
}  // namespace tutti
