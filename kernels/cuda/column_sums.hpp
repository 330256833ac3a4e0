#pragma once
// The last step of sums over rows: what each block has summed is added, column by column, in one order.

#include "launch.hpp"
#include "reduce.hpp"

namespace tutti::cuda {

/// finish(column, Σ over shares of parts[share][column]) once per column, by blocks of 32 columns and 32
/// shares at a time. Without shares the sums are 0.
template <class Part, class Finish>
__global__ void __launch_bounds__(1024)
    add_parts(const Part* RESTRICT parts, std::int64_t shares, std::int64_t columns, Finish finish) {
    SHARED(double, sums, [32][33]);
    const int line = thread_index() / 32;
    const std::int64_t column = block_index() * 32 + lane_index();
    double sum = 0;
    if (column < columns)
        for (std::int64_t share = line; share < shares; share += 32)
            sum += static_cast<double>(parts[share * columns + column]);
    sums[line][lane_index()] = sum;
    __syncthreads();
    // Each warp now has one column's 32 sums side by side.
    sum = warp_sum(sums[lane_index()][line]);
    const std::int64_t mine = block_index() * 32 + line;
    if (lane_index() == 0 && mine < columns) finish(mine, sum);
}

inline Geometry add_parts_geometry(std::int64_t columns) {
    return {{static_cast<unsigned>(divide_up(columns, 32))}, {1024}};
}

}  // namespace tutti::cuda
