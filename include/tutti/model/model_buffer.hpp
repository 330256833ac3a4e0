#pragma once
// A tensor of the model that is not trained: running statistics, a table.

#include <string>
#include <vector>

#include "tutti/base/dtype.hpp"
#include "tutti/base/shape.hpp"

namespace tutti {

/// A buffer as its layer declares it. Saved, loaded and sent to other ranks with the parameters, and unknown
/// to the optimizer (torch.nn.Module.register_buffer).
struct BufferSpec {
    std::string name;  ///< within the layer: "running_mean"
    Shape shape;
    double initial = 0;
    bool counts = false;         ///< i64; otherwise of the parameters' type
    bool may_be_absent = false;  ///< in a file that is loaded
    bool saved = true;           ///< false: in no file (torch.nn.Module.register_buffer(persistent=False))
    std::vector<double> values = {};  ///< as it begins, in place of `initial`; not for counts
    /// As in ParameterSpec: how files have it, and which of its axes memory has first. Empty: in one order.
    Shape view = {};
    std::vector<std::size_t> permutation = {};

    DType dtype(DType compute) const { return counts ? DType::i64 : compute; }
};

}  // namespace tutti
