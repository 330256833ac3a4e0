#pragma once
// The CUDA part of the program, in a library of its own beside it: opened only when it is wanted, so that a
// run on the CPU neither needs CUDA nor pays for it.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/device/device.hpp"

namespace tutti {

/// Raised with every change of what crosses the border: Device, Ops and all they mention, and the module's
/// entry points.
inline constexpr int cuda_module_interface = 13;

/// Where the module is looked for, beside the program.
std::string cuda_module_path();

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
    /// "NVIDIA H200", of GPU `index`.
    std::string device_name(int index) const { return device_name_(index); }
    /// UUIDs of the GPUs that this process may use, by index: "GPU-0f1e2d3c-…".
    std::vector<std::string> visible_gpus() const;
    /// What decides the bits of GPU `index`'s results beside this program, for people: its model, versions of
    /// driver and libraries, NVIDIA_TF32_OVERRIDE (no other variable). Where texts differ bits may. RunError.
    std::string basis_of_bits(int index) const { return basis_of_bits_(index); }
    /// The stream (cudaStream_t) on which a device of make_device() computes, for communication to follow. It
    /// lives as long as the device.
    void* compute_stream(Device& device) const { return compute_stream_(&device); }
    /// The entry points from which communication makes what it needs of CUDA (see GpuEntries).
    void* make_side_stream() const { return make_side_stream_; }
    void* make_staging() const { return make_staging_; }
    void* make_bf16_transit() const { return make_bf16_transit_; }
    /// Seconds of each run of case `index` of kernel_cases(), after one that does not count; the GPU's
    /// second-level cache is cold. Throws RunError.
    void time_kernel(int index, std::span<double> seconds) const;

  private:
    void* symbol(const char* name);
    void* library_ = nullptr;
    int (*device_count_)() = nullptr;
    Device* (*make_device_)(int) = nullptr;
    const char* (*device_name_)(int) = nullptr;
    const char* (*time_kernel_)(int, int, double*) = nullptr;
    const char* (*visible_gpus_)() = nullptr;
    const char* (*basis_of_bits_)(int) = nullptr;
    void* (*compute_stream_)(Device*) = nullptr;
    void* make_side_stream_ = nullptr;
    void* make_staging_ = nullptr;
    void* make_bf16_transit_ = nullptr;
    std::string problem_;
};

}  // namespace tutti
