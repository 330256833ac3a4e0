#include <gtest/gtest.h>

#include <set>

#include "tutti/base/error.hpp"
#include "tutti/input/sampler.hpp"

namespace tutti {
namespace {

using Positions = std::vector<std::int64_t>;

Positions positions_of(const BatchWindow& window) {
    Positions positions;
    for (std::int64_t i = 0; i < window.count; ++i) positions.push_back(window.first + i * window.stride);
    return positions;
}

struct Case {
    const char* what;
    WindowOptions options;
    std::vector<Positions> windows;  ///< the positions of each
};

// cursor, limit, batch_size, world_size, rank, drop_partial
const std::vector<Case> table = {
    {"one rank, whole batches", {0, 6, 3, 1, 0, false}, {{0, 1, 2}, {3, 4, 5}}},
    {"one rank, a tail", {0, 7, 3, 1, 0, false}, {{0, 1, 2}, {3, 4, 5}, {6}}},
    {"one rank, the tail dropped", {0, 7, 3, 1, 0, true}, {{0, 1, 2}, {3, 4, 5}}},
    {"two ranks, rank 0 of an odd tail", {0, 7, 2, 2, 0, false}, {{0, 2}, {4, 6}}},
    {"two ranks, rank 1 of an odd tail", {0, 7, 2, 2, 1, false}, {{1, 3}, {5}}},
    {"three ranks, rank 2 has none in the tail", {0, 8, 2, 3, 2, false}, {{2, 5}, {}}},
    {"three ranks, rank 1 has the last of the tail", {0, 8, 2, 3, 1, false}, {{1, 4}, {7}}},
    {"four ranks, more ranks than samples", {0, 2, 4, 4, 3, false}, {{}}},
    {"four ranks, the only batch is partial and dropped", {0, 2, 4, 4, 0, true}, {}},
    {"resume at a multiple of B·R", {4, 8, 2, 2, 1, false}, {{5, 7}}},
    {"resume at a multiple of R only, rank 0", {2, 9, 2, 2, 0, false}, {{2, 4}, {6, 8}}},
    {"resume at no multiple of R, rank 0", {5, 12, 1, 3, 0, false}, {{6}, {9}, {}}},
    {"resume at no multiple of R, rank 1", {5, 12, 1, 3, 1, false}, {{7}, {10}, {}}},
    {"resume at no multiple of R, rank 2", {5, 12, 1, 3, 2, false}, {{5}, {8}, {11}}},
    {"resume with a partial batch dropped", {5, 12, 1, 3, 2, true}, {{5}, {8}}},
    {"resume at the end", {8, 8, 2, 2, 0, false}, {}},
    {"resume beyond the end", {9, 8, 2, 2, 0, false}, {}},
    {"nothing to read", {0, 0, 2, 2, 0, false}, {}},
};

TEST(EpochWindows, HaveTheRanksPositionsOfEachGlobalBatch) {
    for (const Case& c : table) {
        std::vector<Positions> found;
        for (const BatchWindow& window : epoch_windows(c.options)) found.push_back(positions_of(window));
        EXPECT_EQ(found, c.windows) << c.what;
    }
}

TEST(EpochWindows, OfAllRanksTogetherCoverEveryPositionOnce) {
    for (std::int64_t ranks = 1; ranks <= 4; ++ranks)
        for (std::int64_t cursor : {0, 1, 5, 12})
            for (std::int64_t limit = cursor; limit < cursor + 30; ++limit) {
                std::multiset<std::int64_t> all;
                for (std::int64_t rank = 0; rank < ranks; ++rank)
                    for (const BatchWindow& window : epoch_windows({.cursor = cursor,
                                                     .limit = limit,
                                                     .batch_size = 3,
                                                     .world_size = ranks,
                                                     .rank = rank}))
                        for (const std::int64_t position : positions_of(window)) {
                            EXPECT_EQ(position % ranks, rank);
                            EXPECT_GE(position, window.begin);
                            EXPECT_LT(position, window.end);
                            EXPECT_LE(window.count, 3);
                            all.insert(position);
                        }
                std::multiset<std::int64_t> expected;
                for (std::int64_t p = cursor; p < limit; ++p) expected.insert(expected.end(), p);
                EXPECT_EQ(all, expected) << "R " << ranks << ", [" << cursor << ", " << limit << ")";
            }
}

TEST(EpochWindows, EveryRankHasTheSameGlobalBatches) {
    const WindowOptions options{.cursor = 4, .limit = 19, .batch_size = 2, .world_size = 3};
    const std::vector<std::pair<std::int64_t, std::int64_t>> expected{{4, 10}, {10, 16}, {16, 19}};
    for (std::int64_t rank = 0; rank < 3; ++rank) {
        WindowOptions mine = options;
        mine.rank = rank;
        std::vector<std::pair<std::int64_t, std::int64_t>> found;
        for (const BatchWindow& window : epoch_windows(mine)) found.emplace_back(window.begin, window.end);
        EXPECT_EQ(found, expected);
    }
}

TEST(EpochWindows, ImpossibleOptionsAreRefused) {
    EXPECT_THROW(epoch_windows({.cursor = -1, .limit = 4}), UsageError);
    EXPECT_THROW(epoch_windows({.limit = 4, .batch_size = 0}), UsageError);
    EXPECT_THROW(epoch_windows({.limit = 4, .world_size = 0}), UsageError);
    EXPECT_THROW(epoch_windows({.limit = 4, .world_size = 2, .rank = 2}), UsageError);
}

}  // namespace
}  // namespace tutti
