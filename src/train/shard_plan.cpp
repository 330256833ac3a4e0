#include "tutti/train/shard_plan.hpp"

#include <optional>
#include <stdexcept>
#include <string>

#include "tutti/base/bucket_policy.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

struct Refusal {
    std::string what, remedy;
};

std::optional<Refusal> obstacle_to_zero1(const Config& config) {
    if (config.optim.name == "lamb")
        return Refusal{
            "optim.name is lamb: its trust ratio needs the norm of each whole parameter, of which "
            "a rank has a part only",
            "set distributed.strategy: ddp, or optim.name: adamw"};
    if (const BucketPolicy policy = config.distributed.bucket_policy; is_measured(policy))
        return Refusal{"distributed.bucket_policy is " + to_string(policy) +
                           ": buckets that are chosen during the run would move the optimizer's state "
                           "between the ranks",
                       "set distributed.bucket_policy: ddp, single or per_layer"};
    if (config.distributed.compress != Compress::none)
        return Refusal{"distributed.compress is bf16: compressed sums are made for whole gradients only",
                       "set distributed.compress: none, or distributed.strategy: ddp"};
    if (config.run.deterministic)
        return Refusal{
            "run.deterministic is true: the fixed tree of sums needs every gradient whole on every rank",
            "set distributed.strategy: ddp"};
    return std::nullopt;
}

}  // namespace

ShardPlan plan_shards(std::span<const Bucket> buckets, std::int64_t arena_count, int rank, int ranks) {
    ShardPlan plan;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
        const std::int64_t end = b + 1 < buckets.size() ? buckets[b + 1].offset : arena_count;
        const ArenaRange whole{buckets[b].offset, end - buckets[b].offset};
        if (whole.count % ranks != 0)
            throw std::logic_error("bucket " + std::to_string(b) + " has " + std::to_string(whole.count) +
                                   " elements, which " + std::to_string(ranks) + " ranks cannot share");
        const std::int64_t block = whole.count / ranks;
        plan.buckets.push_back(whole);
        plan.owned.push_back({whole.offset + block * rank, block});
    }
    return plan;
}

bool shards_optimizer(const Config& config, int ranks) {
    return config.distributed.strategy == Strategy::zero1 && ranks > 1;
}

void check_zero1(const Config& config) {
    if (config.distributed.strategy != Strategy::zero1) return;
    if (const std::optional<Refusal> refusal = obstacle_to_zero1(config))
        throw UsageError("distributed.strategy is zero1 and " + refusal->what, refusal->remedy);
}

Strategy chosen_strategy(const Config& config, int ranks, bool common_memory) {
    const Strategy given = config.distributed.strategy;
    if (given != Strategy::automatic || ranks == 1 || !common_memory) return given;
    // A gradient's norm would be added up in another order, and across steps there is no gathering.
    const bool needs_ddp = obstacle_to_zero1(config) || config.optim.clip_norm ||
                           config.train.nan_policy == NanPolicy::skip ||
                           config.distributed.across_steps == AcrossSteps::yes;
    return needs_ddp ? given : Strategy::zero1;
}

}  // namespace tutti
