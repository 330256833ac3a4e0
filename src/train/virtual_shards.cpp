#include "tutti/train/virtual_shards.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

#include "tutti/base/bucket_policy.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

struct RefusedSetting {
    bool applies;
    std::string what, remedy;
};

BatchWindow window_of(std::int64_t shard, std::int64_t shards, std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin + ((shard - begin) % shards + shards) % shards;
    const std::int64_t count = first < end ? (end - first + shards - 1) / shards : 0;
    return {first, shards, count, begin, end};
}

}  // namespace

std::vector<std::int64_t> ShardLayout::of_rank() const {
    std::vector<std::int64_t> order{rank};
    for (std::int64_t distance = ranks; distance < shards; distance *= 2) {
        // A leaf of the tree that is cut at this distance becomes two neighbours.
        std::vector<std::int64_t> finer;
        for (const std::int64_t shard : order) finer.insert(finer.end(), {shard, shard + distance});
        order = std::move(finer);
    }
    return order;
}

std::vector<BatchWindow> shard_windows(const ShardLayout& layout, std::int64_t cursor, std::int64_t limit,
                                       std::int64_t global_batch) {
    const std::vector<std::int64_t> mine = layout.of_rank();
    std::vector<BatchWindow> windows;
    for (std::int64_t begin = cursor; begin < limit; begin += global_batch)
        for (const std::int64_t shard : mine)
            windows.push_back(window_of(shard, layout.shards, begin, std::min(begin + global_batch, limit)));
    return windows;
}

double sum_of_neighbours(std::vector<double> leaves) {
    assert(std::has_single_bit(leaves.size()));
    for (std::size_t count = leaves.size(); count > 1; count /= 2)
        for (std::size_t i = 0; i < count / 2; ++i) leaves[i] = leaves[2 * i] + leaves[2 * i + 1];
    return leaves.front();
}

void check_deterministic(const Config& config, int ranks) {
    if (!config.run.deterministic) return;
    const std::int64_t shards = config.run.virtual_shards;
    const BucketPolicy policy = config.distributed.bucket_policy;
    const bool power_of_two = std::has_single_bit(static_cast<unsigned>(ranks));
    const std::string world = std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
    const std::string at_most = std::to_string(std::min<std::int64_t>(
        shards, static_cast<std::int64_t>(std::bit_floor(static_cast<unsigned>(ranks)))));
    const RefusedSetting refusals[] = {
        {!power_of_two, "there are " + world + ": the fixed tree of sums needs a power of two",
         "start " + at_most + " ranks, or set run.deterministic: false"},
        {shards % ranks != 0,
         "run.virtual_shards " + std::to_string(shards) + " is not a multiple of the " + world,
         "start at most " + std::to_string(shards) +
             " ranks, or begin a run with run.virtual_shards: " + std::to_string(ranks)},
        {config.distributed.strategy == Strategy::zero1,
         "distributed.strategy is zero1: the fixed tree of sums needs every gradient whole on every rank",
         "set distributed.strategy: ddp"},
        {config.distributed.compress != Compress::none,
         "distributed.compress is bf16: compressed sums depend on the number of ranks",
         "set distributed.compress: none"},
        {config.distributed.sync_batch_norm,
         "distributed.sync_batch_norm is true: batch statistics are those of each virtual shard",
         "set distributed.sync_batch_norm: false"},
        {config.train.scale_lr_by_world_size,
         "train.scale_lr_by_world_size is true: the learning rate would depend on the number of ranks",
         "set train.scale_lr_by_world_size: false, and optim.lr to what it is to be"},
        {config.data.tail == Tail::pad,
         "data.tail is pad: how many samples are repeated depends on the number of ranks",
         "set data.tail: exact"},
        {config.run.autotune, "run.autotune is true: engines that were measured may differ between ranks",
         "set run.autotune: false"},
        {is_measured(policy),
         "distributed.bucket_policy is " + to_string(policy) +
             ": gradients are summed as a whole, after backward",
         "set distributed.bucket_policy: ddp"},
    };
    for (const RefusedSetting& refusal : refusals)
        if (refusal.applies)
            throw UsageError("run.deterministic is true and " + refusal.what, refusal.remedy);
}

std::int64_t samples_per_update(const Config& config, int ranks) {
    const TrainConfig& train = config.train;
    constexpr double most = std::int64_t{1} << 53;
    // In floating point: the product of what people type may not fit an integer.
    const double product =
        static_cast<double>(train.batch_size) * static_cast<double>(train.accumulate) * ranks;
    if (product > most)
        throw UsageError("train.batch_size " + std::to_string(train.batch_size) + " × " +
                             std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") +
                             " × train.accumulate " + std::to_string(train.accumulate) +
                             " is more samples than any data have",
                         "set them to less");
    return train.batch_size * train.accumulate * ranks;
}

std::int64_t largest_micro_batch(const Config& config, int ranks) {
    if (!config.run.deterministic) return config.train.batch_size;
    const std::int64_t shards = config.run.virtual_shards;
    return (samples_per_update(config, ranks) + shards - 1) / shards;
}

std::int64_t micro_batches_per_update(const Config& config, int ranks) {
    return config.run.deterministic ? config.run.virtual_shards / ranks : config.train.accumulate;
}

DistributedConfig bucket_config(const Config& config) {
    DistributedConfig result = config.distributed;
    if (config.run.deterministic) result.bucket_policy = BucketPolicy::single;
    return result;
}

}  // namespace tutti
