#pragma once
// Work on x[rows, width] by rows: a warp per row where rows are short, a block where they are long, and for
// kernels that ask for it a thread where they are of a few elements.

#include <algorithm>

#include "launch.hpp"
#include "reduce.hpp"

namespace tutti::cuda {

inline constexpr int row_threads = 256;  ///< of a block
inline constexpr std::int64_t longest_row_of_a_warp = 1024;
inline constexpr std::int64_t longest_row_of_a_thread = 8;  ///< a quarter of a warp has something to do

/// `Threads` (1, 32 or the whole block) work on one row. Reductions are called by all of them.
template <int Threads>
struct RowGroup {
    static_assert(Threads == 1 || Threads == 32 || Threads == row_threads);
    static constexpr int per_block = row_threads / Threads;

    __device__ static int number() { return thread_index() / Threads; }
    __device__ static int member() { return thread_index() % Threads; }
    /// The rows first_row(), first_row() + row_step(), … are this group's.
    __device__ static std::int64_t first_row() { return block_index() * per_block + number(); }
    __device__ static std::int64_t row_step() { return static_cast<std::int64_t>(gridDim.x) * per_block; }

    template <class T, class Combine>
    __device__ static T reduce(T value, T identity, const Combine& combine) {
        if constexpr (Threads == 1) return value;
        if constexpr (Threads == 32) return warp_reduce(value, combine);
        return block_reduce<row_threads>(value, identity, combine);
    }
    template <class T>
    __device__ static T sum(T value) {
        return reduce(value, T{0}, Sum<T>{});
    }
};

inline Geometry row_geometry(std::int64_t rows, int per_block, std::int64_t blocks = most_blocks) {
    return {{static_cast<unsigned>(std::min(divided_up(rows, per_block), blocks))}, {row_threads}};
}

/// Calls body(RowGroup<Threads>) with the kind for rows of that width.
template <class Body>
void with_row_group(std::int64_t width, const Body& body) {
    if (width <= longest_row_of_a_warp) return body(RowGroup<32>{});
    body(RowGroup<row_threads>{});
}

/// The same where many rows may be of a few elements.
template <class Body>
void with_small_row_group(std::int64_t width, const Body& body) {
    if (width <= longest_row_of_a_thread) return body(RowGroup<1>{});
    with_row_group(width, body);
}

}  // namespace tutti::cuda
