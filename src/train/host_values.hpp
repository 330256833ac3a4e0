#pragma once
// Numbers of a device, to be looked at.

#include <vector>

#include "tutti/device/device.hpp"

namespace tutti {

/// A tensor of floating type (f64, f32, bf16), in host memory. Waits for the device.
std::vector<double> on_host(Device& device, const TensorView& tensor);

}  // namespace tutti
