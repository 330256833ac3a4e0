// multiply_tiles takes its left factor element by element, from where it lies, and its right one in vectors.
// Rows of weights are the left factor: they are read once, as they are, and nothing but the rows of x, which
// are fewer, is brought into another order (transposed, so that vectors run over the batch).

#include "tile_linear.hpp"

#include <algorithm>
#include <cassert>

#include "parallel.hpp"
#include "tile_product.hpp"
#include "tile_transpose.hpp"

namespace tutti {
namespace {

/// Inputs that are summed between two visits to the sums: of 64 rows so many take 32 KB.
constexpr std::int64_t inner_part = 128;

/// compute(share, first row, rows) for blocks of at most tile_linear_rows.
template <class Compute>
void for_row_blocks(const LinearShape& shape, std::int64_t rows, const Compute& compute) {
    const std::int64_t blocks = (rows + tile_linear_rows - 1) / tile_linear_rows;
    const int threads = omp_get_max_threads();
    const std::int64_t parts =
        uneven_parts_of(blocks, tile_linear_rows * shape.in * shape.out, threads, threads);
    for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t first = share_begin(blocks, parts, part);
        const std::int64_t count = share_begin(blocks, parts, part + 1) - first;
        for_shares(count, std::min<std::int64_t>(count, threads),
                   [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
                       for (std::int64_t block = first + begin; block < first + end; ++block) {
                           const std::int64_t row = block * tile_linear_rows;
                           compute(share, row, std::min(tile_linear_rows, rows - row));
                       }
                   });
    }
}

}  // namespace

bool takes_tile_linear(const LinearShape& shape) {
    // Turning the sums back costs as much whatever the number of inputs; and every block of rows reads all
    // weights again, which should come out of a cache.
    constexpr std::int64_t least_in = 512, least_out = 256, most_weights = std::int64_t{1} << 19;
    return vector_bytes == 64 && shape.in % lanes<float> == 0 && shape.out % lanes<float> == 0 &&
           shape.in >= least_in && shape.out >= least_out && shape.in * shape.out <= most_weights;
}

std::size_t tile_linear_scratch(std::int64_t in, std::int64_t out) {
    return static_cast<std::size_t>((in + 2 * out) * tile_linear_rows);
}

void tile_linear_forward_block(std::int64_t in, std::int64_t out, std::int64_t rows, const float* x,
                               const float* weight, const float* bias, float* y, std::int64_t y_row,
                               float* scratch) {
    assert(rows <= tile_linear_rows && in % lanes<float> == 0 && out % lanes<float> == 0);
    const std::int64_t width = padded<float>(rows);
    float *const x_turned = scratch, *const sums = x_turned + in * width,
                 *const turned_back = sums + out * width;
    transpose_tile(x, in, rows, in, 1.0f, x_turned);
    if (bias)
        for (std::int64_t o = 0; o < out; ++o) std::fill_n(sums + o * width, width, bias[o]);
    for (std::int64_t k = 0; k < in; k += inner_part)
        multiply_tiles<float>(out, width, std::min(inner_part, in - k), {weight + k, in, 1},
                              x_turned + k * width, width, sums, width, k > 0 || bias);
    float* const to = y_row == out ? y : turned_back;
    transpose_tile(sums, width, out, rows, 1.0f, to);
    if (to == y) return;
    for (std::int64_t row = 0; row < rows; ++row) std::copy_n(to + row * out, out, y + row * y_row);
}

void tile_linear_forward(const LinearShape& shape, std::int64_t rows, const float* x, const float* weight,
                         const float* bias, float* y, Workspace& workspace) {
    const int threads = omp_get_max_threads();
    const std::size_t scratch = tile_linear_scratch(shape.in, shape.out);
    float* const memory = workspace.reserve_elements<float>(static_cast<std::size_t>(threads) * scratch);
    const auto of = [&](std::int64_t share) { return memory + static_cast<std::size_t>(share) * scratch; };
    if (rows <= tile_linear_rows && threads > 1) {
        // One block: the threads share its outputs.
        const std::int64_t vectors = shape.out / lanes<float>;
        return for_shares(vectors, std::min<std::int64_t>(vectors, threads),
                          [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
                              const std::int64_t first = begin * lanes<float>;
                              tile_linear_forward_block(
                                  shape.in, end * lanes<float> - first, rows, x, weight + first * shape.in,
                                  bias ? bias + first : nullptr, y + first, shape.out, of(share));
                          });
    }
    for_row_blocks(shape, rows, [&](std::int64_t share, std::int64_t row, std::int64_t count) {
        tile_linear_forward_block(shape.in, shape.out, count, x + row * shape.in, weight, bias,
                                  y + row * shape.out, shape.out, of(share));
    });
}

}  // namespace tutti
