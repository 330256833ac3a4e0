#pragma once
// One call of each kernel of kernel_cases(), with its buffers.

#include <functional>

#include "device_arena.hpp"
#include "stream.hpp"
#include "tutti/device/kernel_cases.hpp"

namespace tutti::cuda {

using KernelRun = std::function<void(Stream)>;
using PrepareRun = KernelRun (*)(DeviceArena&, const KernelCase&);

/// Allocates what the kernel works on and gives its call; null for a kernel that nobody has prepared.
PrepareRun find_run(const std::string& kernel);

}  // namespace tutti::cuda
