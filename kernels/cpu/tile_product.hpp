#pragma once
// Products of matrices so small that they lie in the cache and that a library's set-up would cost more than
// the product: those of one attention head.

#include <cstdint>

#include "tile_vector.hpp"

namespace tutti {

/// The left factor: element (r, k) lies at data[r·row + k·column], so that a transposed one is read in place.
/// One of both is 1.
template <class T>
struct TileView {
    const T* data;
    std::int64_t row, column;
};

/// c[rows, columns] = a[rows, inner] · b[inner, columns], or += when `add`. Rows of b and c begin `b_row` and
/// `c_row` elements apart, anywhere; columns is a multiple of lanes<T>. Each element is summed in the order
/// of `inner`.
template <class T>
void multiply_tiles(std::int64_t rows, std::int64_t columns, std::int64_t inner, const TileView<T>& a,
                    const T* b, std::int64_t b_row, T* c, std::int64_t c_row, bool add);

}  // namespace tutti
