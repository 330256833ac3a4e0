#pragma once
// From the config to the device.

#include <memory>

#include "job_start.hpp"
#include "tutti/base/config.hpp"
#include "tutti/device/device.hpp"

namespace tutti {

/// The device of this rank; all ranks take the same kind. Rank 0 logs why `auto` takes the CPU. Collective.
/// Throws AgreedError (exit 2) when the config's device is not to be had.
std::unique_ptr<Device> select_device(const JobStart& start, const Config& config, int threads);

/// The same for a command that runs on one process, without a job. Throws UsageError.
std::unique_ptr<Device> select_device(const Config& config, int threads);

}  // namespace tutti
