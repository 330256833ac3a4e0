#pragma once
// Averages over windows: average pooling, adaptive and global, differ in their windows only.

#include <cstdint>
#include <vector>

#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// Rows (or columns) [begin, end) of the input, inside it and not empty, and this direction's part of the
/// divisor.
struct PoolWindow {
    std::int64_t begin = 0, end = 0, divisor = 1;
    friend bool operator==(const PoolWindow&, const PoolWindow&) = default;
};

/// One window per output row and per output column.
struct AveragePool2dShape {
    std::int64_t height = 0, width = 0, channels = 0;
    std::vector<PoolWindow> rows, columns;
};

/// y[N, OH, OW, C] = Σ x over rows[oh] × columns[ow] / (rows[oh].divisor · columns[ow].divisor).
class AveragePool2dOp {
  public:
    virtual ~AveragePool2dOp() = default;
    virtual void forward(const TensorView& x, const TensorView& y) = 0;
    virtual void backward(const TensorView& dy, const TensorView& dx) = 0;
};

}  // namespace tutti
