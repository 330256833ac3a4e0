#include "tutti/comm/cost_scaling.hpp"

#include <gtest/gtest.h>

#include <string>

#include "error_message.hpp"
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

/// Host by host, message by message: of each rank's block its host sends a share to every other host, which
/// adds it up, and the own share's sum to every other.
double host_by_host_seconds(int hosts, int ranks_on_each, double bytes, double alpha, double per_byte) {
    double leaves_a_host = 0;
    int messages_of_a_rank = 0;
    for (int rank = 0; rank < ranks_on_each; ++rank) {
        messages_of_a_rank = 0;
        for (int round = 0; round < 2; ++round)
            for (int other = 1; other < hosts; ++other) {
                leaves_a_host += bytes / ranks_on_each / hosts;
                ++messages_of_a_rank;
            }
    }
    return messages_of_a_rank * alpha + leaves_a_host * per_byte;
}

TEST(CostOn, hosts_that_add_up_first_follow_from_what_leaves_each_of_them) {
    constexpr double alpha = 40e-6, per_byte = 8.5e-9;
    const auto seconds = [&](int hosts, int each, double bytes) {
        return host_by_host_seconds(hosts, each, bytes, alpha, per_byte);
    };
    for (const int each : {2, 4, 8})
        for (const int measured : {2, 3}) {
            const double nothing = seconds(measured, each, 0);
            const CostModel cost({{0, nothing, seconds(measured, each, 1) - nothing}});
            for (const int hosts : {2, 3, 4, 16}) {
                const int world = hosts * each;
                const CostModel there = cost_on(cost, even_hosts(measured * each, each).hosts,
                                                even_hosts(world, each).hosts, AllReduceShape::ring);
                for (const double bytes : {0.0, 1e4, 16e6})
                    EXPECT_NEAR(there.seconds(bytes), seconds(hosts, each, bytes), 1e-9)
                        << world << " ranks, " << each << " a host, " << bytes << " bytes";
            }
        }
}

TEST(EvenHosts, are_the_fewest_that_have_as_many_ranks_each) {
    struct Row {
        int world, most_each, hosts, each;
    };
    for (const auto& [world, most_each, hosts, each] :
         {Row{1, 4, 1, 1}, Row{2, 4, 2, 1}, Row{4, 4, 2, 2}, Row{6, 4, 2, 3}, Row{8, 4, 2, 4},
          Row{9, 4, 3, 3}, Row{12, 4, 3, 4}, Row{64, 4, 16, 4}, Row{1, 1, 1, 1}, Row{2, 1, 2, 1},
          Row{7, 1, 7, 1}}) {
        const EvenHosts at = even_hosts(world, most_each);
        EXPECT_EQ(at.hosts, hosts) << world << " ranks, at most " << most_each << " a host";
        EXPECT_EQ(at.each, each) << world << " ranks, at most " << most_each << " a host";
    }
}

TEST(EvenHosts, that_do_not_come_out_even_are_refused_with_those_that_do) {
    struct Row {
        int world, most_each;
        std::string remedy;
    };
    for (const auto& [world, most_each, remedy] :
         {Row{3, 3, "give 2 or 4"}, Row{3, 2, "give 2 or 4"}, Row{5, 4, "give 4 or 6"},
          Row{7, 4, "give 6 or 8"}, Row{10, 4, "give 9 or 12"}, Row{13, 4, "give 12 or 16"}}) {
        const std::string said = test::message_of<UsageError>([&] { even_hosts(world, most_each); });
        EXPECT_CONTAINS(said, std::to_string(world) + " ranks do not come out even");
        EXPECT_CONTAINS(said, remedy);
    }
    EXPECT_THROW(even_hosts(0, 4), UsageError);
}

TEST(CostOn, refuses_what_has_no_links) {
    EXPECT_THROW(cost_on(of_four(), 1, 4, AllReduceShape::ring), UsageError);
    EXPECT_THROW(cost_on(of_four(), 4, 0, AllReduceShape::ring), UsageError);
}

}  // namespace
}  // namespace tutti
