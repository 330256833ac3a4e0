#pragma once
// Answers of the CUDA runtime as errors.

#include <cuda_runtime_api.h>

#include <string>

#include "tutti/base/error.hpp"

namespace tutti::cuda {

/// Throws RunError that names the call and CUDA's error.
inline void check(cudaError_t status, const std::string& call) {
    if (status != cudaSuccess)
        throw RunError(call + " failed: " + cudaGetErrorName(status) + ", " + cudaGetErrorString(status));
}

}  // namespace tutti::cuda
