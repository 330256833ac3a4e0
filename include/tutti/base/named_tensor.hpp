#pragma once
// A tensor with its name, as files hold it: PyTorch's name, shape and element order.

#include <cstddef>
#include <string>
#include <vector>

#include "tutti/base/dtype.hpp"
#include "tutti/base/shape.hpp"

namespace tutti {

/// bytes: shape.count() elements of dtype, row-major, little-endian.
struct NamedTensor {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    std::vector<std::byte> bytes;
};

}  // namespace tutti
