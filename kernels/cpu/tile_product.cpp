#include "tile_product.hpp"

#include <cassert>

namespace tutti {
namespace {

// Blocks of sums that fit into the registers: 16 of 32 with AVX-512, 8 of 16 before; and so many of them that
// the units that multiply need not wait for the sum before. Narrow tiles are taken in higher blocks.
constexpr std::size_t block_sums = vector_bytes == 64 ? 16 : 8;
constexpr std::size_t block_vectors = 4;
constexpr std::size_t narrow_vectors = 2;

template <class T>
struct Operands {
    std::int64_t inner;
    TileView<T> a;
    const T* b;
    std::int64_t b_row;
    T* c;
    std::int64_t c_row;
    bool add;
};

template <class T, std::size_t Rows, std::size_t Vectors>
void multiply_block(const Operands<T>& o, std::int64_t row, std::int64_t column) {
    Vector<T> sums[Rows][Vectors];
    Vector<T>* c[Rows];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Rows; ++r) {
        c[r] = reinterpret_cast<Vector<T>*>(o.c + (row + static_cast<std::int64_t>(r)) * o.c_row + column);
#pragma GCC unroll 8
        for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] = o.add ? c[r][v] : Vector<T>{};
    }
    const T* a = o.a.data + row * o.a.row;
    const T* b = o.b + column;
    for (std::int64_t k = 0; k < o.inner; ++k, a += o.a.column, b += o.b_row) {
        const auto* factors = reinterpret_cast<const Vector<T>*>(b);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 8
            for (std::size_t v = 0; v < Vectors; ++v)
                sums[r][v] += a[static_cast<std::int64_t>(r) * o.a.row] * factors[v];
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 8
        for (std::size_t v = 0; v < Vectors; ++v) c[r][v] = sums[r][v];
}

/// All blocks of `Vectors` vectors that fit behind `column`; then the narrower ones.
template <class T, std::size_t Rows, std::size_t Vectors>
void multiply_strip(const Operands<T>& o, std::int64_t row, std::int64_t column, std::int64_t columns) {
    constexpr auto width = static_cast<std::int64_t>(Vectors) * lanes<T>;
    for (; column + width <= columns; column += width) multiply_block<T, Rows, Vectors>(o, row, column);
    if constexpr (Vectors > 1) multiply_strip<T, Rows, Vectors - 1>(o, row, column, columns);
}

template <class T, std::size_t Rows, std::size_t Vectors>
void multiply_strips(const Operands<T>& o, std::int64_t row, std::int64_t rows, std::int64_t columns) {
    constexpr auto height = static_cast<std::int64_t>(Rows);
    for (; row + height <= rows; row += height) multiply_strip<T, Rows, Vectors>(o, row, 0, columns);
    if constexpr (Rows > 1) multiply_strips<T, Rows - 1, Vectors>(o, row, rows, columns);
}

}  // namespace

template <class T>
void multiply_tiles(std::int64_t rows, std::int64_t columns, std::int64_t inner, const TileView<T>& a,
                    const T* b, std::int64_t b_row, T* c, std::int64_t c_row, bool add) {
    assert(columns % lanes<T> == 0 && b_row % lanes<T> == 0 && c_row % lanes<T> == 0);
    assert(reinterpret_cast<std::uintptr_t>(b) % vector_bytes == 0);
    assert(reinterpret_cast<std::uintptr_t>(c) % vector_bytes == 0);
    const Operands<T> operands{inner, a, b, b_row, c, c_row, add};
    if (columns <= static_cast<std::int64_t>(narrow_vectors) * lanes<T>)
        multiply_strips<T, block_sums / narrow_vectors, narrow_vectors>(operands, 0, rows, columns);
    else
        multiply_strips<T, block_sums / block_vectors, block_vectors>(operands, 0, rows, columns);
}

template void multiply_tiles(std::int64_t, std::int64_t, std::int64_t, const TileView<float>&, const float*,
                             std::int64_t, float*, std::int64_t, bool);
template void multiply_tiles(std::int64_t, std::int64_t, std::int64_t, const TileView<double>&, const double*,
                             std::int64_t, double*, std::int64_t, bool);

}  // namespace tutti
