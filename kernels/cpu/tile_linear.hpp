#pragma once
// Products of rows with the weights of a wide linear layer in fp32, by tiles of our own.

#include <cstddef>
#include <cstdint>

#include "host_memory.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// Rows that go through the weights together.
inline constexpr std::int64_t tile_linear_rows = 64;

/// Whether a layer goes this way: whole vectors of inputs and outputs, so many that packing weights, which
/// every step changes, takes a library a good part of a product with few rows; and the instruction set for
/// which that was measured (AVX-512, Zen 5; 784→512 and 512→512 forward, µs a row: 64 rows 3.8 and 2.5, the
/// library 4.2 and 2.7; from 128 rows on 3.8 and 2.5, the library 3.8 and 2.45). The number of rows has no
/// say: the same rows come in calls of more or fewer where activations are computed again, and must get the
/// same bits.
bool takes_tile_linear(const LinearShape& shape);

/// A place in the work on a product: outputs from `output` on of the block of rows that begins at `row`.
struct TileLinearPlace {
    std::int64_t row, output;
    bool operator==(const TileLinearPlace&) const = default;
};

/// Where share `share` begins when the work on `rows` (1 or more) × `out` is dealt to `shares` in contiguous
/// parts that take as long: block by block and in each by vectors of outputs, so that few blocks are work
/// for many threads. {rows, 0} is behind the last.
TileLinearPlace tile_linear_share_begin(std::int64_t rows, std::int64_t out, std::int64_t shares,
                                        std::int64_t share);

/// turned[in, padded<float>(rows)] = xᵀ, of x[rows, in] the columns from `begin` to `end`, multiples of
/// lanes<float>; at most tile_linear_rows.
void tile_linear_turn(std::int64_t in, std::int64_t rows, const float* x, std::int64_t begin,
                      std::int64_t end, float* turned);

/// y[rows, out] = x[rows, in]·weight[out, in]ᵀ + bias[out] (null: none) of x as tile_linear_turn brings it,
/// with rows of y `y_row` elements apart; with `relu` max(·, 0) of that. in and out: multiples of
/// lanes<float>. Each element is summed in the order of the inputs, behind its bias: its bits depend neither
/// on the other rows nor on the other outputs. `scratch`: tile_linear_rows · out floats.
void tile_linear_multiply(std::int64_t in, std::int64_t out, std::int64_t rows, const float* turned,
                          const float* weight, const float* bias, bool relu, float* y, std::int64_t y_row,
                          float* scratch);

/// Both for any number of rows, in all threads.
void tile_linear_forward(const LinearShape& shape, std::int64_t rows, const float* x, const float* weight,
                         const float* bias, bool relu, float* y, Workspace& workspace);

}  // namespace tutti
