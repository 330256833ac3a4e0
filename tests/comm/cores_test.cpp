#include <gtest/gtest.h>

#include <algorithm>

#include "tutti/comm/launch.hpp"

namespace tutti::test {
namespace {

TEST(cores, ranks_share_cores_evenly) {
    struct Row {
        std::vector<std::vector<int>> cores;
        std::vector<int> threads;
    };
    const std::vector<Row> rows = {
        {{{0, 1, 2, 3}}, {4}},                         // one rank has all
        {{{0, 1}, {2, 3}}, {2, 2}},                    // bound apart
        {{{0, 1, 2, 3}, {0, 1, 2, 3}}, {2, 2}},        // not bound
        {{{0, 1}, {0, 1}, {0, 1}}, {1, 1, 1}},         // more ranks than cores
        {{{0}, {0}}, {1, 1}},                          // never none
        {{{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}}, {2, 2}},  // rounded down
        {{{0, 1, 2, 3}, {2, 3}, {4, 5}}, {2, 1, 2}},   // one overlap
        {{{}, {0, 1}}, {1, 2}},                        // unknown affinity
    };
    for (const Row& row : rows)
        for (std::size_t rank = 0; rank < row.cores.size(); ++rank)
            EXPECT_EQ(threads_for_rank(row.cores, rank), row.threads[rank]) << "rank " << rank;
}

TEST(cores, this_process_may_run_somewhere) {
    const auto cores = bound_cores();
    ASSERT_FALSE(cores.empty());
    EXPECT_TRUE(std::is_sorted(cores.begin(), cores.end()));
}

}  // namespace
}  // namespace tutti::test
