#pragma once
// A tensor with its name, as files hold it: PyTorch's name, shape and element order.

#include <cstddef>
#include <string>
#include <string_view>
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

/// Whether `part` names the tensor: its whole name, or the beginning of one up to a dot ("fc" of
/// "fc.weight").
inline bool names_tensor(std::string_view part, std::string_view tensor) {
    return tensor.starts_with(part) && (tensor.size() == part.size() || tensor[part.size()] == '.');
}

}  // namespace tutti
