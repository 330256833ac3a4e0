#pragma once
// Refusals of the CUDA runtime, cuBLASLt and cuDNN as one typed error.

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string>

#include "tutti/base/error.hpp"

namespace tutti::cuda {

/// "cudaMalloc of 64 bytes failed: cudaErrorMemoryAllocation (2), out of memory; REMEDY".
class GpuError : public RunError {
  public:
    GpuError(const std::string& component, const std::string& call, const std::string& name, int code,
             const std::string& meaning, const std::string& remedy, bool unsupported = false);

    const std::string& component() const { return component_; }  ///< "CUDA", "cuBLASLt", "cuDNN"
    const std::string& call() const { return call_; }            ///< with the place, where it has one
    const std::string& name() const { return name_; }            ///< "cudaErrorMemoryAllocation"
    int number() const { return number_; }                       ///< its value in the component's header
    /// The component computes otherwise, but not this: another way may. Not a failure of the GPU, of memory
    /// or of the program.
    bool unsupported() const { return unsupported_; }

  private:
    std::string component_, call_, name_;
    int number_;
    bool unsupported_;
};

/// Throw GpuError where the status is not success. `call` names the function and what it was for. CUDA then
/// keeps no error for cudaGetLastError, but one that spoils all later calls.
void check(cudaError_t status, const std::string& call);
void check(cublasStatus_t status, const std::string& call);
void check(cudnnStatus_t status, const std::string& call);

/// What a user can do about it; empty where there is no better advice than the error itself.
std::string remedy_for(cudaError_t status);

}  // namespace tutti::cuda
