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

/// Of two sums per channel, parts[share][2][channels]: finish(channel, first sum, second sum) once per
/// channel, with the bits of add_parts.
template <class Finish>
__global__ void __launch_bounds__(1024)
    add_pairs(const double* RESTRICT parts, std::int64_t shares, std::int64_t channels, Finish finish) {
    SHARED(double, sums, [32][33]);
    SHARED(double, totals, [32]);
    const int line = thread_index() / 32;
    const std::int64_t first = block_index() * 16, channel = first + lane_index() % 16;
    const std::int64_t column = lane_index() / 16 * channels + channel;
    double sum = 0;
    if (channel < channels)
        for (std::int64_t share = line; share < shares; share += 32)
            sum += parts[share * 2 * channels + column];
    sums[line][lane_index()] = sum;
    __syncthreads();
    sum = warp_sum(sums[lane_index()][line]);
    if (lane_index() == 0) totals[line] = sum;
    __syncthreads();
    const int mine = thread_index();
    if (mine < 16 && first + mine < channels) finish(first + mine, totals[mine], totals[16 + mine]);
}

inline Geometry add_pairs_geometry(std::int64_t channels) {
    return {{static_cast<unsigned>(divided_up(channels, 16))}, {1024}};
}

inline Geometry add_parts_geometry(std::int64_t columns) {
    return {{static_cast<unsigned>(divided_up(columns, 32))}, {1024}};
}

}  // namespace tutti::cuda
