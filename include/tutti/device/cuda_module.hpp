#pragma once
// The CUDA part of the program, in a library of its own beside it: opened only when it is wanted, so that a
// run on the CPU neither needs CUDA nor pays for it.

#include <memory>
#include <span>
#include <string>

#include "tutti/device/device.hpp"

namespace tutti {

/// Raised with every change of what crosses the border: Device, Ops and all they mention, and the module's
/// entry points.
inline constexpr int cuda_module_interface = 2;

/// Opened for the rest of the process's life.
class CudaModule {
  public:
    /// Looks for a driver, for libtutti_cuda.so beside the program, and for a GPU. Never throws.
    CudaModule();

    /// False where any of them is missing.
    bool usable() const { return problem_.empty(); }
    /// What is missing, for people; empty when usable.
    const std::string& problem() const { return problem_; }

    /// Precondition of the rest: usable.
    int device_count() const;
    /// GPU `index` of those that this process may use. Throws RunError.
    std::unique_ptr<Device> make_device(int index) const;
    std::string device_name() const;
    /// Seconds of each run of case `index` of kernel_cases(), after one that does not count; the GPU's
    /// second-level cache is cold. Throws RunError.
    void time_kernel(int index, std::span<double> seconds) const;

  private:
    void* symbol(const char* name);
    void* library_ = nullptr;
    int (*device_count_)() = nullptr;
    Device* (*make_device_)(int) = nullptr;
    const char* (*device_name_)() = nullptr;
    const char* (*time_kernel_)(int, int, double*) = nullptr;
    std::string problem_;
};

}  // namespace tutti
