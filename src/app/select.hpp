#pragma once
// From the config to the device.

#include <memory>
#include <optional>
#include <string>

#include "job_start.hpp"
#include "tutti/base/config.hpp"
#include "tutti/comm/gpu_communicator.hpp"
#include "tutti/comm/gpu_placement.hpp"
#include "tutti/device/device.hpp"

namespace tutti {

struct SelectedDevice {
    std::unique_ptr<Device> device;
    std::optional<GpuEntries> gpu;  ///< for communicators of its memory, which it must outlive; none: a CPU
    std::string basis_of_bits;      ///< of a GPU: CudaModule::basis_of_bits
    std::string name, uuid;         ///< of a GPU
    std::string notice;             ///< why `auto` takes the CPU, one line for people; else empty
};

/// The device of this rank; all ranks take the same kind, and each a GPU by its place among the ranks of its
/// host (assign_gpus). Rank 0 logs the device's notices: the log outlives it. Collective. Throws AgreedError
/// when the config's device is not to be had (exit 2), or ranks would share a GPU and may not.
SelectedDevice select_device(const JobStart& start, const Config& config, int threads, GpuSharing sharing);

/// The same for a command that runs on one process, without a job. Throws UsageError.
std::unique_ptr<Device> select_device(const Config& config, int threads);

}  // namespace tutti
