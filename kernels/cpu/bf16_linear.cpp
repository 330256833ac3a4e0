// Rows are pairs of their neighbours as soon as they are in bf16, and are the products' left factor; weights
// become pairs of the summed dimension, slab of columns after slab:
//
//   weights  [slab of columns][pairs][columns of the slab]

#include "bf16_linear.hpp"

#include <algorithm>

#include "amx_products.hpp"
#include "bf16_pairs.hpp"
#include "bf16_tile.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

constexpr std::int64_t slab = bf16_lanes * most_bf16_vectors;
/// Rows that go through all weights together: 8 blocks of as many as the product's sums have. A matrix unit
/// multiplies so fast that weights which a core's cache does not hold must come for more rows, of which it
/// holds some.
std::int64_t rows_at_once(std::int64_t pairs, std::int64_t columns) {
    constexpr std::int64_t cache = (std::int64_t{512} << 10) / sizeof(Bf16Pair);
    constexpr std::int64_t block = 32, least = 64, most = 256;
    if (!has_amx_products()) return 48;
    if (pairs * columns <= cache) return least;
    return std::clamp(2 * cache / pairs / block * block, least, most);
}

struct Product {
    std::int64_t rows, pairs, columns;
    const std::int64_t at_once = rows_at_once(pairs, columns);

    std::int64_t weights_size() const { return pairs * columns; }
    std::int64_t slab_columns(std::int64_t first) const { return std::min(slab, columns - first); }

    /// compute(begin, end, share) on at most at_once rows at a time, in all threads.
    template <class Compute>
    void for_rows(const Compute& compute) const {
        const std::int64_t blocks = (rows + at_once - 1) / at_once;
        const int threads = omp_get_max_threads();
        const std::int64_t parts = uneven_parts_of(blocks, at_once * pairs * columns, threads, threads);
        for (std::int64_t part = 0; part < parts; ++part) {
            const std::int64_t first = share_begin(blocks, parts, part);
            const std::int64_t count = share_begin(blocks, parts, part + 1) - first;
            for_shares(count, std::min<std::int64_t>(count, threads),
                       [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
                           for (std::int64_t block = first + begin; block < first + end; ++block)
                               compute(block * at_once, std::min((block + 1) * at_once, rows), share);
                       });
        }
    }

    /// to[rows of a block, columns] = left · weights + start.
    void multiply(std::int64_t count, const Bf16Pair* left, const Bf16Pair* weights, const float* start,
                  float* to, MemoryAhead ahead) const {
        for (std::int64_t column = 0; column < columns; column += slab) {
            const std::int64_t width = slab_columns(column);
            multiply_bf16_pairs(count, width, {1, pairs, 0, 0, 1, width, pairs}, left,
                                weights + column * pairs,
                                {to + column, columns, false, start ? start + column : nullptr, &ahead});
        }
    }

    /// What lies behind row `end` of a matrix, as much as the next rows.
    template <class T>
    MemoryAhead::Range ahead(const T* matrix, std::int64_t width, std::int64_t end) const {
        constexpr std::int64_t line = 64 / sizeof(T);
        return {matrix + end * width, std::min(at_once, rows - end) * width / line};
    }
};

}  // namespace

bool takes_bf16_linear(const LinearShape& shape) {
    const std::int64_t most = has_amx_products() ? 16384 : 1024;
    return has_bf16_tiles() && shape.in % bf16_lanes == 0 && shape.out % bf16_lanes == 0 &&
           shape.in <= most && shape.out <= most;
}

bool takes_bf16_linear_backward(const LinearShape& shape, std::int64_t rows) {
    const std::int64_t least_rows = has_amx_products() ? 16 : 512;
    return rows >= least_rows && takes_bf16_linear(shape);
}

void bf16_linear_forward(const LinearShape& shape, std::int64_t rows, const float* x, const float* weight,
                         const float* bias, float* y, Workspace& workspace) {
    const Product product{rows, shape.in / 2, shape.out};
    const std::int64_t rounded_size = product.at_once * product.pairs;
    auto* const weights = workspace.reserve_elements<Bf16Pair>(
        static_cast<std::size_t>(product.weights_size() + omp_get_max_threads() * rounded_size));
    for_ranges(
        shape.out / bf16_lanes,
        [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t o = begin * bf16_lanes; o < end * bf16_lanes; o += bf16_lanes) {
                const std::int64_t first = o / slab * slab;
                transpose_bf16_pairs(weight + o * shape.in, shape.in, bf16_lanes, shape.in, 1.0f,
                                     weights + first * product.pairs + o - first,
                                     product.slab_columns(first));
            }
        },
        shape.in * bf16_lanes);
    product.for_rows([&](std::int64_t begin, std::int64_t end, std::int64_t share) {
        Bf16Pair* const rounded = weights + product.weights_size() + share * rounded_size;
        round_to_bf16(x + begin * shape.in, shape.in, end - begin, shape.in,
                      reinterpret_cast<std::uint16_t*>(rounded));
        product.multiply(end - begin, rounded, weights, bias, y + begin * shape.out,
                         {{product.ahead(x, shape.in, end), product.ahead(y, shape.out, end)}});
    });
}

void bf16_linear_backward_data(const LinearShape& shape, std::int64_t rows, const std::uint16_t* dy,
                               const float* weight, float* dx, Workspace& workspace) {
    const Product product{rows, shape.out / 2, shape.in};
    auto* const weights =
        workspace.reserve_elements<Bf16Pair>(static_cast<std::size_t>(product.weights_size()));
    for_ranges(
        product.pairs,
        [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t first = 0; first < shape.in; first += slab) {
                const std::int64_t width = product.slab_columns(first);
                const float* const even = weight + 2 * begin * shape.in + first;
                make_bf16_pairs(even, even + shape.in, width, end - begin, 2 * shape.in,
                                weights + first * product.pairs + begin * width);
            }
        },
        2 * shape.in);
    product.for_rows([&](std::int64_t begin, std::int64_t end, std::int64_t) {
        product.multiply(end - begin, reinterpret_cast<const Bf16Pair*>(dy + begin * shape.out), weights,
                         nullptr, dx + begin * shape.in,
                         {{product.ahead(dy, shape.out, end), product.ahead(dx, shape.in, end)}});
    });
}

}  // namespace tutti
