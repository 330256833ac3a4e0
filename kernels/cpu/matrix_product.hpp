#pragma once
// The three matrix products of a layer, by Eigen. In a file of their own because every mention of an Eigen
// product costs many seconds of compilation.

#include <cstdint>
#include <string>

namespace tutti {

/// A view of a row-major matrix, whose rows begin `stride` elements apart.
template <class T>
struct MatrixView {
    T* data;
    std::int64_t rows, columns, stride;

    MatrixView(T* first, std::int64_t row_count, std::int64_t column_count, std::int64_t row_stride)
        : data(first), rows(row_count), columns(column_count), stride(row_stride) {}
    MatrixView(T* first, std::int64_t row_count, std::int64_t column_count)
        : MatrixView(first, row_count, column_count, column_count) {}
};

/// c = a · bᵀ
template <class T>
void multiply_transposed(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c);
/// c = a · b
template <class T>
void multiply(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c);
/// c += aᵀ · b
template <class T>
void add_transposed_product(const MatrixView<const T>& a, const MatrixView<const T>& b,
                            const MatrixView<T>& c);

/// "Eigen 3.4.0".
std::string eigen_version();

}  // namespace tutti
