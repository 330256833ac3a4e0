#pragma once
// One call of each kernel of kernel_cases(), with its buffers.

#include <functional>
#include <span>

#include "device_arena.hpp"
#include "stream.hpp"
#include "tutti/device/kernel_cases.hpp"

namespace tutti::cuda {

using KernelRun = std::function<void(Stream)>;
using PrepareRun = KernelRun (*)(DeviceArena&, const KernelCase&);

struct NamedRun {
    const char* kernel;
    PrepareRun prepare;
};
/// Of layers, and of what works on arenas and pixels; the others are in kernel_runs.cpp.
std::span<const NamedRun> layer_runs();
std::span<const NamedRun> arena_runs();

/// Allocates what the kernel works on and gives its call; null for a kernel that nobody has prepared.
PrepareRun find_run(const std::string& kernel);

}  // namespace tutti::cuda
