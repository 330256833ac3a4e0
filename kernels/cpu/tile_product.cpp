#include "tile_product.hpp"

#include <cassert>

namespace tutti {
namespace {

// The greatest block of sums, `rows` times so many vectors: with a vector of each row of b and one factor of
// a it fits into the registers (32 with AVX-512, 16 before). So many sums also keep the units busy that
// multiply, which each begin a new one while the one before is not ready yet. With 16 registers, 2 rows of 4
// vectors or 4 of 3 reach little more than half the rate (Zen 3: 50 and 47 GFLOP/s, 6 rows of 2 vectors 83).
constexpr std::size_t wide_vectors = vector_bytes == 64 ? 4 : 2, wide_rows = 6;
constexpr std::size_t narrow_vectors = 2, narrow_rows = vector_bytes == 64 ? 12 : 6;

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

/// Where the factors of a block's rows lie. Neighbours are one constant apart; rows that are not are reached
/// from every third one, because an address may have one or two times a stride in it: the others' own
/// addresses would not fit into the registers.
template <class T, std::size_t Rows, bool Neighbours>
class Factors {
  public:
    Factors(const TileView<T>& a, std::int64_t row) : stride_(a.row), step_(a.column) {
        for (std::size_t i = 0; i < bases; ++i)
            base_[i] = a.data + (row + static_cast<std::int64_t>(i * apart)) * a.row;
    }
    T operator[](std::size_t r) const {
        if constexpr (Neighbours) return base_[0][r];
        return base_[r / apart][static_cast<std::int64_t>(r % apart) * stride_];
    }
    void next() {
#pragma GCC unroll 4
        for (std::size_t i = 0; i < bases; ++i) base_[i] += Neighbours ? step_ : 1;
    }

  private:
    static constexpr std::size_t apart = Neighbours ? Rows : 3, bases = (Rows + apart - 1) / apart;
    const T* base_[bases];
    std::int64_t stride_, step_;
};

template <class T, std::size_t Rows, std::size_t Vectors, bool Neighbours>
void multiply_block(const Operands<T>& o, std::int64_t row, std::int64_t column) {
    Vector<T> sums[Rows][Vectors];
    T* const c = o.c + row * o.c_row + column;
    const auto place = [&](std::size_t r, std::size_t v) {
        return c + static_cast<std::int64_t>(r) * o.c_row + static_cast<std::int64_t>(v) * lanes<T>;
    };
#pragma GCC unroll 12
    for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] = o.add ? load(place(r, v)) : Vector<T>{};
    Factors<T, Rows, Neighbours> a(o.a, row);
    const T* b = o.b + column;
    for (std::int64_t k = 0; k < o.inner; ++k, a.next(), b += o.b_row) {
        Vector<T> factors[Vectors];
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v)
            factors[v] = load(b + static_cast<std::int64_t>(v) * lanes<T>);
#pragma GCC unroll 12
        for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
            for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] += a[r] * factors[v];
    }
#pragma GCC unroll 12
    for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) store(sums[r][v], place(r, v));
}

/// All blocks of `Vectors` vectors that fit behind `column`; then the narrower ones.
template <class T, std::size_t Rows, std::size_t Vectors, bool Neighbours>
void multiply_strip(const Operands<T>& o, std::int64_t row, std::int64_t column, std::int64_t columns) {
    constexpr auto width = static_cast<std::int64_t>(Vectors) * lanes<T>;
    for (; column + width <= columns; column += width)
        multiply_block<T, Rows, Vectors, Neighbours>(o, row, column);
    if constexpr (Vectors > 1) multiply_strip<T, Rows, Vectors - 1, Neighbours>(o, row, column, columns);
}

/// `rows` are dealt to as few strips as their height allows, which differ by at most one row: a low last one
/// would have too few sums.
template <class T, std::size_t Rows, std::size_t Vectors, bool Neighbours>
void multiply_strips(const Operands<T>& o, std::int64_t row, std::int64_t rows, std::int64_t columns,
                     std::int64_t strips) {
    constexpr auto height = static_cast<std::int64_t>(Rows);
    for (; strips > 0 && (rows - row + strips - 1) / strips == height; row += height, --strips)
        multiply_strip<T, Rows, Vectors, Neighbours>(o, row, 0, columns);
    if constexpr (Rows > 1)
        if (strips > 0) multiply_strips<T, Rows - 1, Vectors, Neighbours>(o, row, rows, columns, strips);
}

template <class T, bool Neighbours>
void multiply(const Operands<T>& o, std::int64_t rows, std::int64_t columns) {
    const auto strips_of = [rows](std::size_t height) {
        return (rows + static_cast<std::int64_t>(height) - 1) / static_cast<std::int64_t>(height);
    };
    if (columns <= static_cast<std::int64_t>(narrow_vectors) * lanes<T>)
        multiply_strips<T, narrow_rows, narrow_vectors, Neighbours>(o, 0, rows, columns,
                                                                    strips_of(narrow_rows));
    else
        multiply_strips<T, wide_rows, wide_vectors, Neighbours>(o, 0, rows, columns, strips_of(wide_rows));
}

}  // namespace

template <class T>
void multiply_tiles(std::int64_t rows, std::int64_t columns, std::int64_t inner, const TileView<T>& a,
                    const T* b, std::int64_t b_row, T* c, std::int64_t c_row, bool add) {
    assert(columns % lanes<T> == 0 && (a.row == 1 || a.column == 1));
    const Operands<T> operands{inner, a, b, b_row, c, c_row, add};
    a.column == 1 ? multiply<T, false>(operands, rows, columns) : multiply<T, true>(operands, rows, columns);
}

template void multiply_tiles(std::int64_t, std::int64_t, std::int64_t, const TileView<float>&, const float*,
                             std::int64_t, float*, std::int64_t, bool);
template void multiply_tiles(std::int64_t, std::int64_t, std::int64_t, const TileView<double>&, const double*,
                             std::int64_t, double*, std::int64_t, bool);

}  // namespace tutti
