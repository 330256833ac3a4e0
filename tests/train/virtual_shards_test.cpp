#include "tutti/train/virtual_shards.hpp"

#include <gtest/gtest.h>

#include <map>

#include "support/thread_communicator.hpp"
#include "tutti/base/error.hpp"
#include "tutti/comm/butterfly.hpp"

namespace tutti {
namespace {

using Shards = std::vector<std::int64_t>;

/// Thirds and sevenths, whose sums depend on the order of addition.
double leaf(std::int64_t shard) {
    return 1.0 / static_cast<double>(3 + shard) + static_cast<double>(shard % 5) * 1000.0 / 7.0;
}

/// Of the shards ≡ first (mod distance): those that are farthest apart first.
double naive_sum(std::int64_t first, std::int64_t distance, std::int64_t shards) {
    if (distance == shards) return leaf(first);
    return naive_sum(first, 2 * distance, shards) + naive_sum(first + distance, 2 * distance, shards);
}

std::vector<double> leaves_of(const ShardLayout& layout) {
    std::vector<double> leaves;
    for (const std::int64_t shard : layout.of_rank()) leaves.push_back(leaf(shard));
    return leaves;
}

TEST(ShardLayout, PutsNeighboursOfTheTreeSideBySide) {
    EXPECT_EQ((ShardLayout{8, 1, 0}.of_rank()), (Shards{0, 4, 2, 6, 1, 5, 3, 7}));
    EXPECT_EQ((ShardLayout{8, 2, 1}.of_rank()), (Shards{1, 5, 3, 7}));
    EXPECT_EQ((ShardLayout{8, 4, 2}.of_rank()), (Shards{2, 6}));
    EXPECT_EQ((ShardLayout{8, 8, 5}.of_rank()), (Shards{5}));
}

TEST(ShardLayout, GivesTheSumOfOneTreeOnAnyNumberOfRanks) {
    for (const std::int64_t shards : {1, 2, 8, 32}) {
        const double expected = naive_sum(0, 1, shards);
        for (int ranks = 1; ranks <= std::min<std::int64_t>(shards, 8); ranks *= 2)
            test::run_on_threads(ranks, [&](Communicator& world) {
                double sum = sum_of_neighbours(leaves_of({shards, ranks, world.rank()}));
                butterfly_sum(world, view_of(std::span(&sum, 1)));
                EXPECT_EQ(sum, expected) << shards << " shards on " << ranks << " ranks";
            });
    }
    // Another order gives other bits: the test can fail.
    double in_order = 0;
    for (std::int64_t shard = 0; shard < 32; ++shard) in_order += leaf(shard);
    EXPECT_NE(in_order, naive_sum(0, 1, 32));
}

TEST(ShardWindows, CutEveryGlobalBatchAlikeOnAnyNumberOfRanks) {
    constexpr std::int64_t shards = 8, cursor = 5, limit = 61, batch = 24;
    std::map<int, std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>>> of;
    for (const int ranks : {1, 2, 8}) {
        std::vector<int> owners(limit);
        for (int rank = 0; rank < ranks; ++rank) {
            const ShardLayout layout{shards, ranks, rank};
            const auto windows = shard_windows(layout, cursor, limit, batch);
            const Shards mine = layout.of_rank();
            ASSERT_EQ(windows.size(), 3 * mine.size());
            for (std::size_t w = 0; w < windows.size(); ++w) {
                const BatchWindow& window = windows[w];
                EXPECT_EQ(window.begin, cursor + static_cast<std::int64_t>(w / mine.size()) * batch);
                EXPECT_EQ(window.end, std::min(window.begin + batch, limit));
                EXPECT_LE(window.count, batch / shards);
                of[ranks][mine[w % mine.size()]].emplace_back(window.first, window.count);
                for (std::int64_t i = 0; i < window.count; ++i) {
                    const std::int64_t position = window.first + i * window.stride;
                    EXPECT_EQ(position % shards, mine[w % mine.size()]);
                    EXPECT_GE(position, window.begin);
                    ASSERT_LT(position, window.end);
                    ++owners[static_cast<std::size_t>(position)];
                }
            }
        }
        for (std::int64_t p = 0; p < limit; ++p)
            EXPECT_EQ(owners[static_cast<std::size_t>(p)], p >= cursor ? 1 : 0) << p;
        EXPECT_EQ(of[ranks], of[1]) << ranks << " ranks";
    }
}

TEST(ShardWindows, OfShardsWithoutSamplesAreEmpty) {
    const auto windows = shard_windows({4, 1, 0}, 0, 2, 8);
    ASSERT_EQ(windows.size(), 4u);
    const std::vector<std::int64_t> counts{windows[0].count, windows[1].count, windows[2].count,
                                           windows[3].count};
    EXPECT_EQ(counts, (std::vector<std::int64_t>{1, 0, 1, 0}));  // of the shards 0, 2, 1, 3
}

std::string refusal(const std::vector<std::string>& settings, int ranks) {
    std::vector<std::string> given{"run.deterministic=true"};
    given.insert(given.end(), settings.begin(), settings.end());
    try {
        check_deterministic(parse_config("", "test.yaml", given), ranks);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

TEST(Deterministic, RefusesWhatItsPromiseCannotHoldFor) {
    for (const int ranks : {1, 2, 4, 8}) EXPECT_EQ(refusal({}, ranks), "");
    EXPECT_EQ(refusal({"device=cuda"}, 2), "");
    EXPECT_EQ(refusal({}, 3),
              "run.deterministic is true and there are 3 ranks: the fixed tree of sums needs a power of two; "
              "start 2 ranks, or set run.deterministic: false");
    EXPECT_EQ(refusal({"run.virtual_shards=4"}, 8),
              "run.deterministic is true and run.virtual_shards 4 is not a multiple of the 8 ranks; start at "
              "most 4 ranks, or begin a run with run.virtual_shards: 8");
    for (const char* setting : {"distributed.strategy=zero1", "distributed.sync_batch_norm=true",
                                "data.tail=pad", "train.scale_lr_by_world_size=true",
                                "distributed.bucket_policy=auto", "distributed.bucket_policy=cost_model"}) {
        const std::string text = refusal({setting}, 2);
        EXPECT_NE(text.find(std::string(setting).substr(0, std::string(setting).find('='))),
                  std::string::npos)
            << text;
        EXPECT_NE(text.find("; set "), std::string::npos) << text;
    }
    Config compressed;
    compressed.run.deterministic = true;
    compressed.distributed.compress = Compress::bf16;
    EXPECT_THROW(check_deterministic(compressed, 2), UsageError);
    compressed.run.deterministic = false;
    EXPECT_NO_THROW(check_deterministic(compressed, 3));
    Config measured;
    measured.run.deterministic = measured.run.autotune = true;
    EXPECT_THROW(check_deterministic(measured, 2), UsageError);
}

TEST(Deterministic, MicroBatchesAreShardsWhoseSizeNoNumberOfRanksChanges) {
    Config one;
    one.run.deterministic = true;
    one.train.batch_size = 20;
    Config four = one;
    four.train.batch_size = 1;
    four.train.accumulate = 5;
    EXPECT_EQ(largest_micro_batch(one, 1), 3);
    EXPECT_EQ(largest_micro_batch(four, 4), 3);
    EXPECT_EQ(micro_batches_per_update(one, 1), 8);
    EXPECT_EQ(micro_batches_per_update(four, 4), 2);
    four.train.batch_size = std::int64_t{1} << 40;
    four.train.accumulate = std::int64_t{1} << 30;
    EXPECT_THROW(largest_micro_batch(four, 4), UsageError);
    four.train.batch_size = 1;
    four.train.accumulate = 5;
    Config normal = four;
    normal.run.deterministic = false;
    EXPECT_EQ(largest_micro_batch(normal, 4), 1);
    EXPECT_EQ(micro_batches_per_update(normal, 4), 5);
}

}  // namespace
}  // namespace tutti
