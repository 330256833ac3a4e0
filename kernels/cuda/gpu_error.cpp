#include "gpu_error.hpp"

namespace tutti::cuda {
namespace {

constexpr const char* other_driver =
    "the driver is too old for this build's CUDA, or the GPU too old for its kernels (compute capability 8.0 "
    "on): ask for a newer node, or set device: cpu";
constexpr const char* broken_kernel =
    "everything after it fails, too; run it again under compute-sanitizer, which names the kernel";

/// cuDNN keeps a sentence about its last refusal, per thread; often the only clue.
std::string last_cudnn_sentence() {
    char text[512] = "";
    cudnnGetLastErrorString(text, sizeof text);
    return text;
}

}  // namespace

GpuError::GpuError(const std::string& component, const std::string& call, const std::string& name, int code,
                   const std::string& meaning, const std::string& remedy, bool unsupported)
    : RunError(call + " failed: " + name + " (" + component + ' ' + std::to_string(code) + "), " + meaning,
               remedy),
      component_(component),
      call_(call),
      name_(name),
      number_(code),
      unsupported_(unsupported) {}

std::string remedy_for(cudaError_t status) {
    switch (status) {
        case cudaErrorMemoryAllocation:
            return "use a smaller train.batch_size or model, or set train.recompute: true; nvidia-smi shows "
                   "who else uses the GPU";
        case cudaErrorInsufficientDriver:
        case cudaErrorNoKernelImageForDevice:
        case cudaErrorUnsupportedPtxVersion:
            return other_driver;
        case cudaErrorNoDevice:
        case cudaErrorInvalidDevice:
            return "see CUDA_VISIBLE_DEVICES and what the scheduler gave this task (--gres=gpu:N)";
        case cudaErrorDevicesUnavailable:
            return "another process has this GPU for itself (exclusive mode): give each rank its own";
        case cudaErrorIllegalAddress:
        case cudaErrorMisalignedAddress:
        case cudaErrorLaunchFailure:
        case cudaErrorAssert:
            return broken_kernel;
        case cudaErrorECCUncorrectable:
        case cudaErrorHardwareStackError:
        case cudaErrorLaunchTimeout:
            return "the GPU itself failed: leave its node out (--exclude) and resume from the checkpoint";
        default:
            return {};
    }
}

void check(cudaError_t status, const std::string& call) {
    if (status == cudaSuccess) return;
    cudaGetLastError();  // told here; kept as one, it would be told to who next asks whether a launch failed
    throw GpuError("CUDA", call, cudaGetErrorName(status), static_cast<int>(status),
                   cudaGetErrorString(status), remedy_for(status));
}

void check(cublasStatus_t status, const std::string& call) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw GpuError("cuBLASLt", call, cublasLtGetStatusName(status), static_cast<int>(status),
                   cublasLtGetStatusString(status),
                   status == CUBLAS_STATUS_ALLOC_FAILED       ? remedy_for(cudaErrorMemoryAllocation)
                   : status == CUBLAS_STATUS_EXECUTION_FAILED ? broken_kernel
                   : status == CUBLAS_STATUS_ARCH_MISMATCH    ? other_driver
                                                              : "",
                   // A descriptor that this version does not know, or does not take for the shape, is the
                   // latter.
                   status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE);
}

void check(cudnnStatus_t status, const std::string& call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    const std::string sentence = last_cudnn_sentence();
    throw GpuError("cuDNN", call, cudnnGetErrorString(status), static_cast<int>(status),
                   sentence.empty() ? "it says no more" : sentence,
                   status == CUDNN_STATUS_ALLOC_FAILED ? remedy_for(cudaErrorMemoryAllocation) : "",
                   CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED);
}

}  // namespace tutti::cuda
