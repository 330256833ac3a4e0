#pragma once
// PyTorch's DistributedSampler, index for index, as pure functions.
// torch.utils.data.distributed.DistributedSampler (PyTorch documentation); torch.randperm's algorithm on the
// CPU.

#include <cstdint>
#include <vector>

namespace tutti {

struct SamplerOptions {
    std::int64_t samples = 0;  ///< N ≥ 0
    std::int64_t world_size = 1;
    std::int64_t seed = 0;
    std::int64_t epoch = 0;
    bool shuffle = true;
    bool drop_last = false;
};

/// Samples per rank, n: ceil(N/R), or with drop_last and N % R ≠ 0: ceil((N−R)/R).
std::int64_t samples_per_rank(const SamplerOptions& options);

/// The epoch's list over all ranks, n·R entries (padded cyclically from its beginning, or truncated).
/// Position p belongs to rank p mod R; positions ≥ N are padding. Throws UsageError for impossible options.
std::vector<std::int64_t> epoch_order(const SamplerOptions& options);

/// Rank r's entries of epoch_order: r, r+R, ….
std::vector<std::int64_t> rank_order(const SamplerOptions& options, std::int64_t rank);

/// torch.randperm(n, generator=torch.Generator().manual_seed(seed)).
std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed);

/// One rank's part of a global batch: positions first, first+stride, …, `count` of them.
struct BatchWindow {
    std::int64_t first = 0, stride = 1, count = 0;  ///< of this rank
    std::int64_t begin = 0, end = 0;                ///< of the global batch: positions [begin, end)
};

/// The windows of one epoch from position `cursor` on. The global batch k is [cursor + kBR, …) cut at
/// `limit`. Rank r has the positions ≡ r (mod R), counted from the position 0. Training with tail exact:
/// limit = N (padding is not computed); tail pad: limit = n·R; drop_last of the loader: a window of fewer
/// than B·R positions is left out.
struct WindowOptions {
    std::int64_t cursor = 0, limit = 0, batch_size = 1, world_size = 1, rank = 0;
    bool drop_partial = false;
};
std::vector<BatchWindow> epoch_windows(const WindowOptions& options);

}  // namespace tutti
