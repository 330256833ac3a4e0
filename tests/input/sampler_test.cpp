#include "tutti/input/sampler.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

using List = std::vector<std::int64_t>;

struct Case {
    SamplerOptions options;  ///< samples, world size, seed, epoch, shuffle, drop_last
    List order;
};

// Made by torch 2.15.0: rank r's list of torch.utils.data.distributed.DistributedSampler (after set_epoch) at
// the positions r, r+R, ….
const std::vector<Case> by_torch = {
    // clang-format off
    {{0, 1, 0, 0, true, false}, {}},
    {{0, 3, 0, 0, true, false}, {}},
    {{1, 1, 0, 0, true, false}, {0}},
    {{1, 4, 7, 0, true, false}, {0, 0, 0, 0}},
    {{3, 4, 0, 0, true, false}, {2, 0, 1, 2}},
    {{3, 4, 0, 0, true, true}, {}},
    {{3, 8, 0, 1, true, false}, {1, 2, 0, 1, 2, 0, 1, 2}},
    {{10, 1, 0, 0, true, false}, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2}},
    {{10, 1, 0, 1, true, false}, {5, 6, 1, 2, 0, 8, 9, 3, 7, 4}},
    {{10, 2, 0, 0, true, false}, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2}},
    {{10, 3, 0, 0, true, false}, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2, 4, 1}},
    {{10, 3, 0, 0, true, true}, {4, 1, 7, 5, 3, 9, 0, 8, 6}},
    {{10, 3, 0, 0, false, false}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1}},
    {{10, 3, 0, 0, false, true}, {0, 1, 2, 3, 4, 5, 6, 7, 8}},
    {{10, 4, 42, 5, true, false}, {5, 9, 1, 3, 8, 6, 0, 7, 2, 4, 5, 9}},
    {{10, 4, 42, 5, true, true}, {5, 9, 1, 3, 8, 6, 0, 7}},
    {{12, 4, 42, 5, true, true}, {7, 5, 11, 2, 4, 3, 6, 8, 1, 9, 0, 10}},
    {{10, 3, -1, 0, true, false}, {1, 4, 6, 2, 0, 5, 8, 7, 9, 3, 1, 4}},
    {{10, 3, -1, 1, true, false}, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2, 4, 1}},
    {{10, 3, -5, 2, true, false}, {1, 9, 7, 8, 5, 4, 3, 2, 6, 0, 1, 9}},
    {{10, 3, 4294967296, 0, true, false}, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2, 4, 1}},
    {{10, 3, 4294967313, 3, true, false}, {1, 2, 9, 5, 4, 3, 7, 6, 0, 8, 1, 2}},
    {{10, 3, 17, 3, true, false}, {1, 2, 9, 5, 4, 3, 7, 6, 0, 8, 1, 2}},
    {{10, 3, 9223372036854775800, 7, true, false}, {1, 4, 6, 2, 0, 5, 8, 7, 9, 3, 1, 4}},
    {{10, 3, std::numeric_limits<std::int64_t>::min(), 1, true, false}, {5, 6, 1, 2, 0, 8, 9, 3, 7, 4, 5, 6}},
    {{10, 3, -1099511627779, 0, true, false}, {1, 9, 7, 8, 5, 4, 3, 2, 6, 0, 1, 9}},
    // clang-format on
};

struct LargeCase {
    SamplerOptions options;
    std::int64_t entries;
    List begin;
    std::uint64_t checksum;  ///< sum over positions p of (p+1)·entry
};

// Made by torch 2.15.0, as above.
const std::vector<LargeCase> large_by_torch = {
    // clang-format off
    {{60000, 1, 0, 0, true, false}, 60000, {36044, 10678, 57327, 55074, 21567, 15479}, 53971558475953U},
    {{60000, 4, 0, 1, true, false}, 60000, {35845, 27522, 33254, 23645, 11299, 16178}, 54053341573727U},
    {{10000, 3, 1234567890123, 2, true, false}, 10002, {5908, 6412, 6958, 939, 1726, 6987}, 250029716469U},
    {{10007, 8, -3, 9, true, true}, 10000, {2646, 8604, 9845, 3883, 4411, 6260}, 251287021476U},
    {{1000003, 7, 1, 0, true, false}, 1000006, {90472, 867576, 767033, 303371, 491267, 291418}, 249962529375195922U},
    // clang-format on
};

std::string describe(const SamplerOptions& o) {
    return "N " + std::to_string(o.samples) + ", R " + std::to_string(o.world_size) + ", seed " +
           std::to_string(o.seed) + ", epoch " + std::to_string(o.epoch) + (o.shuffle ? ", shuffle" : "") +
           (o.drop_last ? ", drop_last" : "");
}

TEST(Sampler, EpochOrderEqualsTorchs) {
    for (const Case& c : by_torch) EXPECT_EQ(epoch_order(c.options), c.order) << describe(c.options);
}

TEST(Sampler, LargeEpochOrderEqualsTorchs) {
    for (const LargeCase& c : large_by_torch) {
        const List order = epoch_order(c.options);
        ASSERT_EQ(static_cast<std::int64_t>(order.size()), c.entries) << describe(c.options);
        EXPECT_EQ(List(order.begin(), order.begin() + 6), c.begin) << describe(c.options);
        std::uint64_t checksum = 0;
        for (std::size_t p = 0; p < order.size(); ++p)
            checksum += (p + 1) * static_cast<std::uint64_t>(order[p]);
        EXPECT_EQ(checksum, c.checksum) << describe(c.options);
    }
}

TEST(Sampler, RanksTakeTurnsInTheEpochsOrder) {
    for (const Case& c : by_torch)
        for (std::int64_t rank = 0; rank < c.options.world_size; ++rank) {
            const List mine = rank_order(c.options, rank);
            ASSERT_EQ(static_cast<std::int64_t>(mine.size()), samples_per_rank(c.options));
            for (std::size_t i = 0; i < mine.size(); ++i)
                EXPECT_EQ(mine[i], c.order[i * static_cast<std::size_t>(c.options.world_size) +
                                           static_cast<std::size_t>(rank)])
                    << describe(c.options) << ", rank " << rank;
        }
}

TEST(Sampler, ImpossibleOptionsAreRefused) {
    EXPECT_THROW(samples_per_rank({.samples = -1}), UsageError);
    EXPECT_THROW(epoch_order({.samples = 10, .world_size = 0}), UsageError);
    EXPECT_THROW(rank_order({.samples = 10, .world_size = 2}, 2), UsageError);
    EXPECT_THROW(rank_order({.samples = 10, .world_size = 2}, -1), UsageError);
}

}  // namespace
}  // namespace tutti
