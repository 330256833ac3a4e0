// Squares of one vector's width are transposed in the registers: in log2(lanes) rounds, each of which
// exchanges the off-diagonal quarters of all squares of twice the size of the round before. Element by
// element, reads a row apart cost several times as much.

#include "tile_transpose.hpp"

#include <algorithm>
#include <utility>

#include "tile_vector.hpp"

namespace tutti {
namespace {

template <class T>
inline constexpr std::size_t side = static_cast<std::size_t>(lanes<T>);

/// What the upper and the lower of two vectors become: b's elements are counted behind a's.
template <class T, std::size_t step, std::size_t... k>
Vector<T> upper_of(Vector<T> a, Vector<T> b, std::index_sequence<k...>) {
    return __builtin_shufflevector(a, b, ((k & step) ? side<T> + k - step : k)...);
}
template <class T, std::size_t step, std::size_t... k>
Vector<T> lower_of(Vector<T> a, Vector<T> b, std::index_sequence<k...>) {
    return __builtin_shufflevector(a, b, ((k & step) ? side<T> + k : k + step)...);
}

template <class T, std::size_t step>
void exchange(Vector<T>* square) {
    constexpr auto places = std::make_index_sequence<side<T>>();
#pragma GCC unroll 16
    for (std::size_t i = 0; i < side<T>; ++i) {
        if (i & step) continue;
        const Vector<T> a = square[i], b = square[i + step];
        square[i] = upper_of<T, step>(a, b, places);
        square[i + step] = lower_of<T, step>(a, b, places);
    }
    if constexpr (2 * step < side<T>) exchange<T, 2 * step>(square);
}

/// The first `there` rows of a square, or all of them: then, unrolled, it never leaves the registers.
template <class T, bool All>
void transpose_square(const T* from, std::int64_t stride, std::int64_t there, T factor, T* to,
                      std::int64_t to_stride) {
    Vector<T> square[side<T>] = {};
    const auto read = [&](std::size_t i) {
        square[i] = factor * load(from + static_cast<std::int64_t>(i) * stride);
    };
    if constexpr (All) {
#pragma GCC unroll 16
        for (std::size_t i = 0; i < side<T>; ++i) read(i);
    } else {
        for (std::size_t i = 0; i < static_cast<std::size_t>(there); ++i) read(i);
    }
    exchange<T, 1>(square);
#pragma GCC unroll 16
    for (std::size_t i = 0; i < side<T>; ++i) store(square[i], to + static_cast<std::int64_t>(i) * to_stride);
}

}  // namespace

template <class T>
void transpose_tile(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, T factor,
                    T* to) {
    transpose_tile(from, stride, rows, columns, factor, to, padded<T>(rows));
}

template <class T>
void transpose_tile(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, T factor,
                    T* to, std::int64_t to_stride) {
    const std::int64_t row_size = padded<T>(rows), whole = columns / lanes<T> * lanes<T>;
    for (std::int64_t row = 0; row < rows; row += lanes<T>) {
        const std::int64_t there = std::min(rows - row, lanes<T>);
        for (std::int64_t column = 0; column < whole; column += lanes<T>) {
            T* const out = to + column * to_stride + row;
            if (there == lanes<T>)
                transpose_square<T, true>(from + row * stride + column, stride, there, factor, out,
                                          to_stride);
            else
                transpose_square<T, false>(from + row * stride + column, stride, there, factor, out,
                                           to_stride);
        }
    }
    for (std::int64_t column = whole; column < columns; ++column) {
        T* const out = to + column * to_stride;
        for (std::int64_t row = 0; row < rows; ++row) out[row] = factor * from[row * stride + column];
        std::fill(out + rows, out + row_size, T(0));
    }
}

template void transpose_tile(const float*, std::int64_t, std::int64_t, std::int64_t, float, float*);
template void transpose_tile(const float*, std::int64_t, std::int64_t, std::int64_t, float, float*,
                             std::int64_t);
template void transpose_tile(const double*, std::int64_t, std::int64_t, std::int64_t, double, double*);
template void transpose_tile(const double*, std::int64_t, std::int64_t, std::int64_t, double, double*,
                             std::int64_t);

}  // namespace tutti
