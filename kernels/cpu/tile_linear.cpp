// multiply_tiles takes its left factor element by element, from where it lies, and its right one in vectors.
// Rows of weights are the left factor: they are read once, as they are, and nothing but the rows of x, which
// are fewer, is brought into another order (transposed, so that vectors run over the batch).

#include "tile_linear.hpp"

#include <algorithm>
#include <cassert>

#include "../common/activations.hpp"
#include "parallel.hpp"
#include "tile_product.hpp"
#include "tile_transpose.hpp"

namespace tutti {
namespace {

/// Inputs that are summed between two visits to the sums: of 64 rows so many take 32 KB.
constexpr std::int64_t inner_part = 128;

/// Rows of a block as the tiles compute them.
std::int64_t row_vectors(std::int64_t rows, std::int64_t row) {
    return padded<float>(std::min(tile_linear_rows, rows - row)) / lanes<float>;
}

}  // namespace

bool takes_tile_linear(const LinearShape& shape) {
    // Turning the sums back costs as much whatever the number of inputs; and every block of rows reads all
    // weights again, which should come out of a cache.
    constexpr std::int64_t least_in = 512, least_out = 256, most_weights = std::int64_t{1} << 19;
    return vector_bytes == 64 && shape.in % lanes<float> == 0 && shape.out % lanes<float> == 0 &&
           shape.in >= least_in && shape.out >= least_out && shape.in * shape.out <= most_weights;
}

TileLinearPlace tile_linear_share_begin(std::int64_t rows, std::int64_t out, std::int64_t shares,
                                        std::int64_t share) {
    const std::int64_t runs = out / lanes<float>, block_cost = tile_linear_rows / lanes<float> * runs;
    const std::int64_t last = (rows - 1) / tile_linear_rows, last_row = last * tile_linear_rows;
    const std::int64_t last_vectors = row_vectors(rows, last_row);
    const std::int64_t begin = share_begin(last * block_cost + last_vectors * runs, shares, share);
    const std::int64_t block = std::min(begin / block_cost, last), row = block * tile_linear_rows;
    const std::int64_t run = (begin - block * block_cost) / row_vectors(rows, row);
    return run == runs ? TileLinearPlace{rows, 0} : TileLinearPlace{row, run * lanes<float>};
}

void tile_linear_turn(std::int64_t in, std::int64_t rows, const float* x, std::int64_t begin,
                      std::int64_t end, float* turned) {
    assert(rows <= tile_linear_rows && begin % lanes<float> == 0 && end % lanes<float> == 0);
    transpose_tile(x + begin, in, rows, end - begin, 1.0f, turned + begin * padded<float>(rows));
}

void tile_linear_multiply(std::int64_t in, std::int64_t out, std::int64_t rows, const float* turned,
                          const float* weight, const float* bias, bool relu, float* y, std::int64_t y_row,
                          float* scratch) {
    assert(rows <= tile_linear_rows && in % lanes<float> == 0 && out % lanes<float> == 0);
    const std::int64_t width = padded<float>(rows);
    float* const sums = scratch;
    if (bias)
        for (std::int64_t o = 0; o < out; ++o) std::fill_n(sums + o * width, width, bias[o]);
    for (std::int64_t k = 0; k < in; k += inner_part)
        multiply_tiles<float>(out, width, std::min(inner_part, in - k), {weight + k, in, 1},
                              turned + k * width, width, sums, width, k > 0 || bias);
    if (relu) {
#pragma omp simd
        for (std::int64_t i = 0; i < out * width; ++i) sums[i] = tutti::relu(sums[i]);
    }
    transpose_tile(sums, width, out, rows, 1.0f, y, y_row);
}

namespace {

void compute_share(const LinearShape& shape, std::int64_t rows, std::int64_t shares, std::int64_t share,
                   const float* x, const float* weight, const float* bias, bool relu, float* y,
                   float* scratch) {
    const TileLinearPlace end = tile_linear_share_begin(rows, shape.out, shares, share + 1);
    for (TileLinearPlace at = tile_linear_share_begin(rows, shape.out, shares, share); at != end;) {
        const std::int64_t run = (at.row == end.row ? end.output : shape.out) - at.output;
        const std::int64_t block = std::min(tile_linear_rows, rows - at.row);
        tile_linear_turn(shape.in, block, x + at.row * shape.in, 0, shape.in, scratch);
        tile_linear_multiply(shape.in, run, block, scratch, weight + at.output * shape.in,
                             bias ? bias + at.output : nullptr, relu, y + at.row * shape.out + at.output,
                             shape.out, scratch + shape.in * tile_linear_rows);
        at = at.row == end.row ? end : TileLinearPlace{std::min(at.row + tile_linear_rows, rows), 0};
    }
}

}  // namespace

void tile_linear_forward(const LinearShape& shape, std::int64_t rows, const float* x, const float* weight,
                         const float* bias, bool relu, float* y, Workspace& workspace) {
    if (rows == 0) return;
    const int threads = omp_get_max_threads();
    const auto scratch = static_cast<std::size_t>((shape.in + shape.out) * tile_linear_rows);
    float* const memory = workspace.reserve_elements<float>(static_cast<std::size_t>(threads) * scratch);
    const std::int64_t blocks = (rows + tile_linear_rows - 1) / tile_linear_rows;
    const std::int64_t parts =
        uneven_parts_of(blocks, tile_linear_rows * shape.in * shape.out, threads, threads);
    for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t first = share_begin(blocks, parts, part) * tile_linear_rows;
        const std::int64_t end = std::min(share_begin(blocks, parts, part + 1) * tile_linear_rows, rows);
        for_shares(threads, threads, [&](std::int64_t share, std::int64_t, std::int64_t) {
            compute_share(shape, end - first, threads, share, x + first * shape.in, weight, bias, relu,
                          y + first * shape.out, memory + static_cast<std::size_t>(share) * scratch);
        });
    }
}

}  // namespace tutti
