#include "equal_hosts.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>

namespace tutti::test {
namespace {

TEST(equal_hosts, stand_in_the_order_of_their_first_ranks) {
    const auto blocks = equal_hosts({9, 9, 4, 4, 7, 7}).value();
    EXPECT_EQ(blocks.hosts, 3);
    EXPECT_EQ(blocks.local_size, 2);
    EXPECT_TRUE(blocks.in_blocks());
    EXPECT_EQ(blocks.rank(1, 1), 3);

    const auto dealt_out = equal_hosts({9, 4, 9, 4}).value();
    EXPECT_EQ(dealt_out.ranks, (std::vector<int>{0, 2, 1, 3}));
    EXPECT_FALSE(dealt_out.in_blocks());
    EXPECT_EQ(dealt_out.host_of(2), 0);
    EXPECT_EQ(dealt_out.place_of(2), 1);
}

TEST(equal_hosts, sort_blocks_by_host_and_place) {
    const std::array<char, 12> by_rank{'a', 'A', 'b', 'B', 'c', 'C', 'd', 'D', 'e', 'E', 'f', 'F'};
    std::array<char, 12> by_host{};
    equal_hosts({9, 4, 7, 9, 4, 7})
        .value()
        .sort_blocks(std::as_bytes(std::span(by_rank)).data(), 2,
                     std::as_writable_bytes(std::span(by_host)).data());
    EXPECT_EQ(by_host, (std::array<char, 12>{'a', 'A', 'd', 'D', 'b', 'B', 'e', 'E', 'c', 'C', 'f', 'F'}));
}

TEST(equal_hosts, are_several_of_as_many_ranks) {
    EXPECT_FALSE(equal_hosts({7, 7, 7})) << "one host";
    EXPECT_EQ(equal_hosts({0, 1, 2}).value().local_size, 1) << "a host for each";
    EXPECT_FALSE(equal_hosts({0, 0, 1})) << "2 and 1";
    EXPECT_FALSE(equal_hosts({0, 1, 1})) << "1 and 2";
}

}  // namespace
}  // namespace tutti::test
