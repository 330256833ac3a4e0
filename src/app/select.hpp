#pragma once
// From the config to the device.

#include <memory>

#include "tutti/base/config.hpp"
#include "tutti/device/device.hpp"

namespace tutti {

/// Throws UsageError when the device of the config is not to be had.
std::unique_ptr<Device> select_device(DeviceChoice choice, int threads);

}  // namespace tutti
