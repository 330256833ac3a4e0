#pragma once
// Deterministic mode: how a global batch is cut into shards that no number of ranks changes.

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/input/sampler.hpp"

namespace tutti {

/// V virtual shards on R ranks, both powers of two, R ≤ V. Shard v holds the positions ≡ v (mod V) of an
/// accumulated global batch; rank r, whose positions are those ≡ r (mod R), has the shards ≡ r (mod R).
///
/// Sums go along one binary tree over the shards, the highest index bit first: (v, v + V/2), then those sums
/// at distance V/4, …, at last (0, 1). Each rank's shards are one subtree, so a rank adds up its own, and the
/// ranks go on with theirs, at distance R/2 first (butterfly_sum).
struct ShardLayout {
    std::int64_t shards = 1, ranks = 1, rank = 0;

    std::int64_t per_rank() const { return shards / ranks; }
    /// This rank's, in the order in which its subtree is added up from neighbours: leaves 2i and 2i + 1 first
    /// (the bits of the number within the rank reversed).
    std::vector<std::int64_t> of_rank() const;
};

/// This rank's windows of the positions [cursor, limit), of each global batch of `global_batch` positions one
/// per shard in the order of ShardLayout::of_rank, also where a shard has no positions. Pure.
std::vector<BatchWindow> shard_windows(const ShardLayout& layout, std::int64_t cursor, std::int64_t limit,
                                       std::int64_t global_batch);

/// Of neighbours, then of those sums, …: the sum of a rank's subtree, given its 2^k leaves in the order of
/// ShardLayout::of_rank.
double sum_of_neighbours(std::vector<double> leaves);

/// Throws UsageError where run.deterministic is set together with what it cannot do: a number of ranks that
/// is no power of two or no divisor of run.virtual_shards, or settings whose results depend on the ranks.
void check_deterministic(const Config& config, int ranks);

/// Of all ranks: train.batch_size x ranks x train.accumulate. Throws UsageError where that is more than any
/// data have, so that products of it with small numbers are exact.
std::int64_t samples_per_update(const Config& config, int ranks);
/// The most samples that are computed at once: train.batch_size, in deterministic mode those of a shard.
/// Throws UsageError: see samples_per_update.
std::int64_t largest_micro_batch(const Config& config, int ranks);
/// Forwards and backwards of a rank per update: train.accumulate, in deterministic mode its shards.
std::int64_t micro_batches_per_update(const Config& config, int ranks);
/// How gradients are cut for sending: as distributed.* says, in deterministic mode not at all.
DistributedConfig bucket_config(const Config& config);

}  // namespace tutti
