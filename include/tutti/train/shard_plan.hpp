#pragma once
// Which part of the arenas each rank updates, and keeps optimizer state for.

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/train/bucket_plan.hpp"

namespace tutti {

/// Elements [offset, offset + count) of an arena.
struct ArenaRange {
    std::int64_t offset = 0, count = 0;
    friend bool operator==(const ArenaRange&, const ArenaRange&) = default;
};

/// A range as a view of an arena.
inline TensorView slice(const TensorView& arena, const ArenaRange& range) {
    return {arena.data + static_cast<std::size_t>(range.offset) * size_of(arena.dtype),
            arena.dtype,
            {range.count}};
}
inline std::int64_t total_count(std::span<const ArenaRange> ranges) {
    std::int64_t sum = 0;
    for (const ArenaRange& range : ranges) sum += range.count;
    return sum;
}

/// Stage 1 of ZeRO (S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
/// Models", 2020, section 5.1), bucket by bucket: each is cut into one block per rank, of equal length.
struct ShardPlan {
    std::vector<ArenaRange> buckets;  ///< each with the gap behind it: together the whole arena
    std::vector<ArenaRange> owned;    ///< this rank's block of each
};

/// Pure. buckets: of an arena of `arena_count` elements whose parameters begin at multiples of `ranks`
/// elements, as a Graph of that many shards lays them out. Throws std::logic_error where a bucket cannot be
/// cut.
ShardPlan plan_shards(std::span<const Bucket> buckets, std::int64_t arena_count, int rank, int ranks);

/// Whether a run of that many ranks shards: one rank has nobody to share with.
bool shards_optimizer(const Config& config, int ranks);

/// Throws UsageError where zero1 is asked for together with what it cannot do: an optimizer that needs whole
/// parameters, buckets that change during the run.
void check_zero1(const Config& config);

/// The strategy to follow where the config says auto: zero1 among several ranks that add up gradients in
/// `common_memory`, where a rank that updates its part alone, and lets the others read it, saves each the
/// other parts' update; unless something in the config needs ddp, or would get other bits from zero1. Else
/// what the config says. Pure.
Strategy chosen_strategy(const Config& config, int ranks, bool common_memory);

}  // namespace tutti
