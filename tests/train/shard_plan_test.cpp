#include "tutti/train/shard_plan.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

#include "tutti/base/error.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

TEST(ShardPlan, CutsEachBucketWithTheGapBehindItIntoEqualBlocks) {
    const std::vector<Bucket> buckets{{0, 1, 0, 70}, {2, 2, 96, 1}, {3, 4, 144, 90}};
    const ShardPlan first = plan_shards(buckets, 240, 0, 3);
    EXPECT_EQ(first.buckets, (std::vector<ArenaRange>{{0, 96}, {96, 48}, {144, 96}}));
    EXPECT_EQ(first.owned, (std::vector<ArenaRange>{{0, 32}, {96, 16}, {144, 32}}));
    const ShardPlan last = plan_shards(buckets, 240, 2, 3);
    EXPECT_EQ(last.buckets, first.buckets);
    EXPECT_EQ(last.owned, (std::vector<ArenaRange>{{64, 32}, {128, 16}, {208, 32}}));
}

TEST(ShardPlan, OfOneRankIsEverything) {
    const ShardPlan plan = plan_shards(std::vector<Bucket>{{0, 1, 0, 70}, {2, 2, 80, 1}}, 96, 0, 1);
    EXPECT_EQ(plan.owned, plan.buckets);
    EXPECT_EQ(total_count(plan.owned), 96);
}

TEST(ShardPlan, RefusesAnArenaThatWasNotLaidOutForIt) {
    EXPECT_THROW(plan_shards(std::vector<Bucket>{{0, 1, 0, 70}}, 80, 0, 3), std::logic_error);
}

TEST(ShardPlan, OfAGraphOfThatManyShardsCoversEveryElementOnce) {
    const auto device = make_cpu_device(1);
    for (const int ranks : {2, 3, 4, 7}) {
        const Graph graph(build_lenet({28, 28, 1}, 10), *device, DType::f32, 1, false, ranks);
        const std::int64_t count = graph.parameter_arena().count();
        for (const auto policy : {BucketPolicy::ddp, BucketPolicy::single, BucketPolicy::per_layer}) {
            DistributedConfig config;
            config.bucket_policy = policy;
            std::vector<int> owners(static_cast<std::size_t>(count));
            for (int rank = 0; rank < ranks; ++rank)
                for (const ArenaRange& range :
                     plan_shards(plan_buckets(graph, config), count, rank, ranks).owned) {
                    EXPECT_EQ(range.offset % 16, 0) << "blocks begin at 64 bytes";
                    for (std::int64_t i = 0; i < range.count; ++i)
                        ++owners[static_cast<std::size_t>(range.offset + i)];
                }
            EXPECT_EQ(owners, std::vector<int>(owners.size(), 1)) << ranks << " ranks";
        }
    }
}

std::string refusal(const std::vector<std::string>& settings) {
    std::vector<std::string> given{"distributed.strategy=zero1"};
    given.insert(given.end(), settings.begin(), settings.end());
    try {
        check_zero1(parse_config("", "test.yaml", given));
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

TEST(Zero1, RefusesWhatItCannotDoAndSaysWhatToDo) {
    EXPECT_EQ(refusal({"optim.name=adamw", "distributed.bucket_policy=per_layer"}), "");
    EXPECT_NE(refusal({"optim.name=lamb"}).find("norm of each whole parameter"), std::string::npos);
    for (const char* policy : {"auto", "cost_model"}) {
        const std::string text = refusal({std::string("distributed.bucket_policy=") + policy});
        EXPECT_NE(text.find(std::string("distributed.bucket_policy is ") + policy), std::string::npos)
            << text;
        EXPECT_NE(text.find("ddp, single or per_layer"), std::string::npos) << text;
    }
}

TEST(Zero1, RefusesDeterministicModeAndCompression) {
    Config config;
    config.distributed.strategy = Strategy::zero1;
    EXPECT_NO_THROW(check_zero1(config));
    config.run.deterministic = true;
    EXPECT_THROW(check_zero1(config), UsageError);
    config.run.deterministic = false;
    config.distributed.compress = Compress::bf16;
    EXPECT_THROW(check_zero1(config), UsageError);
    config.distributed.strategy = Strategy::ddp;
    EXPECT_NO_THROW(check_zero1(config));
}

Strategy chosen(const std::vector<std::string>& settings, int ranks = 2, bool common_memory = true) {
    return chosen_strategy(parse_config("", "test.yaml", settings), ranks, common_memory);
}

TEST(Zero1, IsWhatAutoTakesAmongRanksWithMemoryInCommon) {
    EXPECT_EQ(chosen({}), Strategy::zero1);
    EXPECT_EQ(chosen({"optim.name=adamw", "train.accumulate=2"}, 3), Strategy::zero1);
    EXPECT_EQ(chosen({}, 1), Strategy::automatic);
    EXPECT_EQ(chosen({}, 2, false), Strategy::automatic);
    EXPECT_EQ(chosen({"distributed.strategy=ddp"}), Strategy::ddp);
    EXPECT_EQ(chosen({"distributed.strategy=zero1"}, 2, false), Strategy::zero1);
}

TEST(Zero1, IsNotWhatAutoTakesWhereItIsRefusedOrHasOtherBits) {
    for (const char* setting :
         {"optim.name=lamb", "distributed.bucket_policy=auto", "distributed.bucket_policy=cost_model",
          "optim.clip_norm=1", "train.nan_policy=skip", "distributed.across_steps=true"})
        EXPECT_EQ(chosen({setting}), Strategy::automatic) << setting;
    Config compressed, deterministic;
    compressed.distributed.compress = Compress::bf16;
    deterministic.run.deterministic = true;
    for (const Config& config : {compressed, deterministic})
        EXPECT_EQ(chosen_strategy(config, 2, true), Strategy::automatic);
}

}  // namespace
}  // namespace tutti
