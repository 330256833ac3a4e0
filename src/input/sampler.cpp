#include "tutti/input/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

void require(bool possible, const std::string& what, std::int64_t value, const std::string& remedy) {
    if (!possible) throw UsageError("sampler: " + what + " is " + std::to_string(value), remedy);
}

void require_rank(std::int64_t rank, std::int64_t world_size) {
    require(
        rank >= 0 && rank < world_size, "rank", rank,
        "with world size " + std::to_string(world_size) + " ranks are 0.." + std::to_string(world_size - 1));
}

}  // namespace

std::int64_t samples_per_rank(const SamplerOptions& options) {
    const std::int64_t n = options.samples, ranks = options.world_size;
    require(n >= 0, "the number of samples", n, "it must be 0 or more");
    require(ranks >= 1, "the world size", ranks, "it must be 1 or more");
    // With a remainder, ceil((N−R)/R) is floor(N/R), for N < R too.
    return n / ranks + (n % ranks != 0 && !options.drop_last ? 1 : 0);
}

std::vector<std::int64_t> epoch_order(const SamplerOptions& options) {
    const auto total = static_cast<std::size_t>(samples_per_rank(options) * options.world_size);
    std::vector<std::int64_t> order;
    if (options.shuffle) {
        // The sum wraps as in the two's complement of torch's 64-bit seed; the engine keeps the low 32 bits.
        order = random_permutation(options.samples, static_cast<std::uint64_t>(options.seed) +
                                                        static_cast<std::uint64_t>(options.epoch));
    } else {
        order.resize(static_cast<std::size_t>(options.samples));
        std::iota(order.begin(), order.end(), std::int64_t{0});
    }
    const std::size_t n = order.size();
    order.resize(total);
    for (std::size_t p = n; p < total; ++p) order[p] = order[p - n];
    return order;
}

std::vector<std::int64_t> rank_order(const SamplerOptions& options, std::int64_t rank) {
    const std::int64_t count = samples_per_rank(options);
    require_rank(rank, options.world_size);
    const std::vector<std::int64_t> order = epoch_order(options);
    std::vector<std::int64_t> mine(static_cast<std::size_t>(count));
    auto position = static_cast<std::size_t>(rank);
    for (std::int64_t& index : mine) {
        index = order[position];
        position += static_cast<std::size_t>(options.world_size);
    }
    return mine;
}

std::vector<BatchWindow> epoch_windows(const WindowOptions& options) {
    const std::int64_t ranks = options.world_size;
    require(options.cursor >= 0, "the cursor", options.cursor, "it must be 0 or more");
    require(options.batch_size >= 1, "the batch size", options.batch_size, "it must be 1 or more");
    require(ranks >= 1, "the world size", ranks, "it must be 1 or more");
    require_rank(options.rank, ranks);

    const std::int64_t global_batch = options.batch_size * ranks;
    std::vector<BatchWindow> windows;
    for (std::int64_t begin = options.cursor; begin < options.limit; begin += global_batch) {
        BatchWindow window;
        window.begin = begin;
        window.end = begin + std::min(global_batch, options.limit - begin);
        if (options.drop_partial && window.end - begin < global_batch) break;
        // The first position from `begin` on that is ≡ rank (mod R).
        window.first = begin + (options.rank - begin % ranks + ranks) % ranks;
        window.stride = ranks;
        window.count = window.first < window.end ? (window.end - 1 - window.first) / ranks + 1 : 0;
        windows.push_back(window);
    }
    return windows;
}

}  // namespace tutti
