#include "rank_placement.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::test {
namespace {

TEST(RanksBeside, AreThoseOfTheSameHost) {
    const std::vector<std::string> hosts{"a", "b", "b", "a", "b"};
    std::vector<RankPlace> places(hosts.size());
    for (std::size_t i = 0; i < hosts.size(); ++i) places[i].host = hosts[i];
    EXPECT_EQ(ranks_beside(places, 0), 2);
    EXPECT_EQ(ranks_beside(places, 4), 3);
    EXPECT_EQ(ranks_beside(std::span(places).first(1), 0), 1);
}

}  // namespace
}  // namespace tutti::test
