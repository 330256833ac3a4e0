#pragma once
// How many parts a whole number has, and how many rows a tensor.

#include <cassert>
#include <cstdint>

#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// count / by, rounded up. count ≥ 0, by ≥ 1.
constexpr std::int64_t divided_up(std::int64_t count, std::int64_t by) {
    return (count + by - 1) / by;
}

/// Rows of x, which is seen as [rows, width].
inline std::int64_t rows_of(const TensorView& x, std::int64_t width) {
    assert(x.count() % width == 0);
    return x.count() / width;
}

/// The same where the last dimension is the width, which may be 0.
inline std::int64_t rows_of(const TensorView& x) {
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < x.shape.rank(); ++i) rows *= x.shape[i];
    return rows;
}

}  // namespace tutti
