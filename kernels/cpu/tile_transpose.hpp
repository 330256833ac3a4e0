#pragma once
// Bringing a matrix into the shape that multiply_tiles wants of its right factor.

#include <cstdint>

namespace tutti {

/// to[columns, padded(rows)] = factor · fromᵀ, with zeros behind each row. Rows of from[rows, columns] begin
/// `stride` elements apart.
template <class T>
void transpose_tile(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, T factor,
                    T* to);

/// The same of as many rows as fill vectors, with rows of `to` that begin `to_stride` elements apart.
template <class T>
void transpose_tile(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, T factor,
                    T* to, std::int64_t to_stride);

}  // namespace tutti
