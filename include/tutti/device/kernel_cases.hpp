#pragma once
// Our CUDA kernels at sizes from practice, and the time that no GPU can beat: what `trainer bench kernels`
// shows with or without a GPU.

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/base/dtype.hpp"

namespace tutti {

/// Bytes per second that large copies reach on an H200 (of 4.8 TB/s that its memory has): what floors are
/// counted with.
inline constexpr double floor_bandwidth = 4.3e12;

struct KernelCase {
    std::string kernel;  ///< the function's name in kernels/cuda; unique together with `variant`
    std::string variant;
    DType dtype;               ///< of activations or gradients
    std::int64_t rows, width;  ///< a flat array has one row
    std::int64_t bytes;        ///< each input read once, each output written once

    std::string name() const { return variant.empty() ? kernel : kernel + " " + variant; }
    /// Seconds.
    double floor() const { return static_cast<double>(bytes) / floor_bandwidth; }
};

/// In the order in which they are shown.
std::vector<KernelCase> kernel_cases();

}  // namespace tutti
