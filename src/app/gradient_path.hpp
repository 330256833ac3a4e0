#pragma once
// What carries gradients between the ranks, from the memory of the device on which they are.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "job_start.hpp"
#include "select.hpp"
#include "tutti/base/config.hpp"

namespace tutti {

/// The communicator that the config wants for the gradients: `timed` again, with compressed sums where the
/// config wants them; on GPUs through pinned host memory, or NCCL. Rank 0 is told what make_gpu_communicator
/// says (why `auto` does not take NCCL, or why that has no memory for gradients): `notice`, or without one
/// its log. Collective; throws AgreedError. `gpu` is what select_device gave;
/// its device must outlive the communicator.
std::unique_ptr<Communicator> make_gradients_communicator(
    const JobStart& start, const DistributedConfig& config, const std::optional<GpuEntries>& gpu,
    Communicator& timed, const std::function<void(const std::string&)>& notice = {});

}  // namespace tutti
