#pragma once
// How threads share a Winograd convolution in fp32 and its weight gradient: what one does at a time is so
// much that caches and products are used well, but less where some threads would have nothing. Bits depend on
// none of it.

#include <algorithm>
#include <cstdint>

#include "../common/counts.hpp"
#include "tile_vector.hpp"

namespace tutti {

/// Columns for which multiply_tiles reads weights row by row, as they lie.
inline constexpr std::int64_t fp32_winograd_strip = 2 * lanes<float>;

/// Of a convolution of so many tiles to so many channels.
struct Fp32WinogradShares {
    Fp32WinogradShares(std::int64_t tiles, std::int64_t columns, std::int64_t threads)
        : few(2 * tiles <= columns),
          tiles_at_once(few ? tiles : block_of(tiles, threads)),
          slab(few ? fp32_winograd_strip : most_columns),
          items(few ? divided_up(columns, slab) : divided_up(tiles, tiles_at_once)) {}

    /// So few tiles that all are multiplied at a time, and threads share slabs of columns, not blocks of
    /// tiles.
    const bool few;
    const std::int64_t tiles_at_once;
    const std::int64_t slab;   ///< columns whose sums of all products are kept at a time
    const std::int64_t items;  ///< slabs or blocks

  private:
    static constexpr std::int64_t most_tiles = 48, least_tiles = 6;  // least: those that registers hold
    static constexpr std::int64_t most_columns = 4 * fp32_winograd_strip;

    /// As many blocks for each thread.
    static constexpr std::int64_t block_of(std::int64_t tiles, std::int64_t threads) {
        if (threads == 1) return std::min(tiles, most_tiles);
        const std::int64_t rounds = divided_up(tiles, threads * most_tiles);
        return std::min(tiles, std::max(divided_up(tiles, rounds * threads), least_tiles));
    }
};

/// Tiles of a weight gradient whose products are summed in registers.
inline constexpr std::int64_t fp32_winograd_run = 64;

/// Of a weight gradient of so many tiles, inputs and outputs: so many items, each all products of a slab of
/// outputs and a strip of inputs.
struct Fp32WinogradGradientShares {
    Fp32WinogradGradientShares(std::int64_t tiles, std::int64_t in, std::int64_t out, std::int64_t items,
                               std::int64_t threads)
        : chains(chains_of(tiles, in, out)),
          by_chains(chains > 1 && chains % threads == 0),
          by_products(!by_chains && items % threads != 0 && items < 4 * threads),
          runs(std::min(threads, most_runs)) {}

    /// Parts of the tiles that are summed each by itself. Bits depend on it, so no number of threads may.
    const std::int64_t chains;
    const bool by_chains;    ///< threads share the chains, not the work on each
    const bool by_products;  ///< threads share the items' products
    const std::int64_t
        runs;  ///< of tiles, that are transformed at a time: at least one for each of some threads

  private:
    static constexpr std::int64_t most_runs = 8;
    /// Adding up the chains must cost little beside the transformed tiles.
    static constexpr std::int64_t chains_of(std::int64_t tiles, std::int64_t in, std::int64_t out) {
        const std::int64_t ratio = tiles * (in + out) / (in * out), most = ratio >= 32  ? 4
                                                                           : ratio >= 8 ? 2
                                                                                        : 1;
        // Whole runs make a chain, and none is without: nobody would write its sums.
        return std::min(most, divided_up(tiles, fp32_winograd_run));
    }
};

}  // namespace tutti
