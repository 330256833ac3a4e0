#pragma once
// Updates of many parameters at once, over flat arenas: the segments are cut into chunks once, and one launch
// takes all of them, a block per chunk.

#include <algorithm>
#include <span>
#include <vector>

#include "launch.hpp"
#include "optimizer_step.hpp"
#include "vectors.hpp"

namespace tutti::cuda {

inline constexpr int update_threads = 256;

inline Geometry update_geometry(const UpdateChunks& chunks) {
    return {{static_cast<unsigned>(chunks.count)}, {update_threads}};
}

/// body(i, Lanes<4>) for each whole vector of the arena in the chunk, body(i, Lanes<1>) for what lies before
/// and after, all threads of the block together.
template <class Body>
__device__ inline void for_chunk(const UpdateChunk& chunk, const Body& body) {
    const std::int64_t end = chunk.begin + chunk.count, up = (chunk.begin + 3) / 4 * 4;
    const std::int64_t first = up < end ? up : end, down = end / 4 * 4;
    const std::int64_t last = down > first ? down : first;
    for (std::int64_t i = chunk.begin + thread_index(); i < first; i += block_threads()) body(i, Lanes<1>{});
    for (std::int64_t i = first + 4 * thread_index(); i < last; i += 4 * block_threads()) body(i, Lanes<4>{});
    for (std::int64_t i = last + thread_index(); i < end; i += block_threads()) body(i, Lanes<1>{});
}

}  // namespace tutti::cuda
