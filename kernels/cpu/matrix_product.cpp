#include "matrix_product.hpp"

#include <fmt/format.h>

#include <Eigen/Core>

namespace tutti {
namespace {

template <class T>
using Map = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, Eigen::Unaligned,
                       Eigen::OuterStride<>>;
template <class T>
using ConstMap = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                            Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T>
Map<T> map(const MatrixView<T>& m) {
    return {m.data, m.rows, m.columns, Eigen::OuterStride<>(m.stride)};
}
template <class T>
ConstMap<T> map(const MatrixView<const T>& m) {
    return {m.data, m.rows, m.columns, Eigen::OuterStride<>(m.stride)};
}

}  // namespace

template <class T>
void multiply_transposed(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c) {
    map(c).noalias() = map(a) * map(b).transpose();
}
template <class T>
void multiply(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c) {
    map(c).noalias() = map(a) * map(b);
}
template <class T>
void add_transposed_product(const MatrixView<const T>& a, const MatrixView<const T>& b,
                            const MatrixView<T>& c) {
    map(c).noalias() += map(a).transpose() * map(b);
}

template void multiply_transposed(const MatrixView<const float>&, const MatrixView<const float>&,
                                  const MatrixView<float>&);
template void multiply_transposed(const MatrixView<const double>&, const MatrixView<const double>&,
                                  const MatrixView<double>&);
template void multiply(const MatrixView<const float>&, const MatrixView<const float>&,
                       const MatrixView<float>&);
template void multiply(const MatrixView<const double>&, const MatrixView<const double>&,
                       const MatrixView<double>&);
template void add_transposed_product(const MatrixView<const float>&, const MatrixView<const float>&,
                                     const MatrixView<float>&);
template void add_transposed_product(const MatrixView<const double>&, const MatrixView<const double>&,
                                     const MatrixView<double>&);

std::string eigen_version() {
    return fmt::format("Eigen {}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION);
}

}  // namespace tutti
