#pragma once
// What a loss leaves of each row, added up in one order.

#include "row_groups.hpp"

namespace tutti::cuda {

/// sums[3] = {Σ rows_done[row], rows, Σ rows_done[rows + row]}; without the second half of rows_done the last
/// is 0.
template <bool has_hits>
__global__ void __launch_bounds__(row_threads)
    sum_row_losses(const double* RESTRICT rows_done, std::int64_t rows, double* RESTRICT sums) {
    double loss = 0, hits = 0;
    for (std::int64_t row = thread_index(); row < rows; row += row_threads) {
        loss += rows_done[row];
        if constexpr (has_hits) hits += rows_done[rows + row];
    }
    loss = block_sum<row_threads>(loss);
    if constexpr (has_hits) hits = block_sum<row_threads>(hits);
    if (thread_index() == 0) {
        sums[0] = loss;
        sums[1] = static_cast<double>(rows);
        sums[2] = hits;
    }
}

template <bool has_hits>
void add_row_losses(const char* name, const double* rows_done, std::int64_t rows, double* sums,
                    Stream stream) {
    launch(name, sum_row_losses<has_hits>, Geometry{{1}, {row_threads}}, stream, rows_done, rows, sums);
}

}  // namespace tutti::cuda
