#include "module.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdlib>
#include <exception>
#include <string>

#include "cuda_bf16_transit.hpp"
#include "cuda_device.hpp"
#include "gpu_error.hpp"
#include "kernel_runs.hpp"
#include "tutti/device/cuda_module.hpp"

#define EXPORTED __attribute__((visibility("default")))

namespace {

using namespace tutti;
using namespace tutti::cuda;

/// More than the second-level cache of any GPU (a B200: 126 MB).
constexpr std::int64_t flushed_bytes = 512 << 20;

/// "12.8" of 12080.
std::string cuda_version(int number) {
    return std::to_string(number / 1000) + '.' + std::to_string(number % 1000 / 10);
}

void time_case(const KernelCase& work, int repetitions, double* seconds) {
    const PrepareRun prepare = find_run(work.kernel);
    if (!prepare) throw RunError("the module does not know the kernel " + work.kernel);
    DeviceArena arena;
    const KernelRun run = prepare(arena, work);
    const TensorView flushed = arena.tensor(DType::u8, {flushed_bytes});
    const Stream stream = nullptr;
    Event start(EventTiming::on), end(EventTiming::on);
    for (int i = -1; i < repetitions; ++i) {
        check(cudaMemsetAsync(flushed.data, i & 1, flushed.bytes(), stream), "cudaMemsetAsync");
        start.record(stream);
        run(stream);
        end.record(stream);
        end.synchronize();
        const double elapsed = end.since(start);
        if (i >= 0) seconds[i] = elapsed;
    }
}

}  // namespace

EXPORTED int tutti_cuda_interface() {
    return cuda_module_interface;
}

EXPORTED Device* tutti_cuda_make_device(int index) {
    return new CudaDevice(index);
}

EXPORTED void* tutti_cuda_compute_stream(Device* device) {
    return static_cast<CudaDevice*>(device)->compute_stream();
}

EXPORTED Bf16Transit* tutti_cuda_make_bf16_transit() {
    return make_bf16_transit().release();
}

EXPORTED int tutti_cuda_device_count() {
    int count = 0;  // left untouched where there is no driver
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

EXPORTED const char* tutti_cuda_why_no_gpu() {
    static std::string reason;
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && count > 0) return nullptr;
    int driver = 0;  // of CUDA; 0 without a driver
    if (status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0)
        reason = "the NVIDIA driver is one for CUDA " + cuda_version(driver) + ", " +
                 "and this program's module for CUDA " + cuda_version(CUDART_VERSION) +
                 ": update the driver, or add the folder of NVIDIA's cuda-compat package to LD_LIBRARY_PATH";
    else if (status == cudaSuccess || status == cudaErrorNoDevice)
        reason = "the NVIDIA driver shows this process no GPU (CUDA_VISIBLE_DEVICES?)";
    else
        reason = std::string("the NVIDIA driver gives no GPU: ") + cudaGetErrorName(status) + ", " +
                 cudaGetErrorString(status);
    return reason.c_str();
}

EXPORTED const char* tutti_cuda_device_name(int index) {
    static cudaDeviceProp properties;
    return cudaGetDeviceProperties(&properties, index) == cudaSuccess ? properties.name : "?";
}

EXPORTED const char* tutti_cuda_basis_of_bits(int index) {
    static std::string text;
    cudaDeviceProp properties{};
    int driver = 0;
    check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    // With other multiprocessors the libraries choose other engines. Versions are numbers as their headers
    // write them.
    text = std::string(properties.name) + " (compute capability " + std::to_string(properties.major) + '.' +
           std::to_string(properties.minor) + ", " + std::to_string(properties.multiProcessorCount) +
           " multiprocessors), a driver for CUDA " + cuda_version(driver) + ", CUDA " +
           cuda_version(CUDART_VERSION) + ", cuBLASLt " + std::to_string(cublasLtGetVersion()) + ", cuDNN " +
           std::to_string(cudnnGetVersion());
    // Libraries of NVIDIA obey it. Other variables that they may obey are not seen.
    if (const char* const tf32 = std::getenv("NVIDIA_TF32_OVERRIDE"))
        text += std::string(", NVIDIA_TF32_OVERRIDE=") + tf32;
    return text.c_str();
}

EXPORTED int tutti_cuda_knows_kernel(int index) {
    const auto cases = kernel_cases();
    const auto place = static_cast<std::size_t>(index);
    return place < cases.size() && find_run(cases[place].kernel) != nullptr ? 1 : 0;
}

EXPORTED const char* tutti_cuda_time_kernel(int index, int repetitions, double* seconds) {
    static std::string problem;
    try {
        time_case(kernel_cases().at(static_cast<std::size_t>(index)), repetitions, seconds);
        return nullptr;
    } catch (const std::exception& error) {
        problem = error.what();
        return problem.c_str();
    }
}
