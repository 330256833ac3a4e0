#pragma once
// How many threads a kernel gets: pure functions of the shape, so the order of every sum, and with it every
// bit of a result, is the same on any GPU.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "../common/counts.hpp"

namespace tutti::cuda {

struct Extent3 {
    unsigned x = 1, y = 1, z = 1;
};

/// A grid of blocks. A launch with no blocks does nothing.
struct Geometry {
    Extent3 grid, block;
    std::size_t dynamic_shared = 0;  ///< bytes
    bool empty() const { return grid.x == 0 || grid.y == 0 || grid.z == 0; }
};

/// Whether a multiprocessor can hold a block with so many registers in each thread. Each of its four parts
/// has 16,384, given by 256 to a warp, and has every fourth warp of a block: 13 warps are 4 in one of them
/// (compute capability 8.0 to 10.0; NVIDIA's cuda_occupancy.h).
constexpr bool registers_fit(std::int64_t registers, std::int64_t threads) {
    const std::int64_t of_a_warp = divided_up(32 * registers, 256) * 256;
    return divided_up(divided_up(threads, 32), 4) * of_a_warp <= 16384;
}

/// More blocks than any GPU of today runs at once with 256 threads each (a B200: 148 · 8); kernels that walk
/// with grid_threads() as their step take several rounds.
inline constexpr std::int64_t most_blocks = 2048;

/// For kernels in which thread i does items i, i + grid_threads(), …: one round if it fits.
constexpr Geometry elementwise(std::int64_t items) {
    constexpr std::int64_t threads = 256;
    return {{static_cast<unsigned>(std::min(divided_up(items, threads), most_blocks))}, {threads}};
}

}  // namespace tutti::cuda
