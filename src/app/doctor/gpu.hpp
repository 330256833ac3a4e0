#pragma once
// The GPU of a rank, and the libraries beside it, found at run time: nothing of CUDA is needed to build this.

#include <map>
#include <string>

namespace tutti::doctor {

struct Gpu {
    std::string name, uuid;
};

/// The GPU that a rank takes: of those in CUDA_VISIBLE_DEVICES (else all) the local_rank-th, around. Empty
/// where there is no NVIDIA driver. Source: NVML's nvmlDeviceGetHandleByIndex_v2, nvmlDeviceGetUUID.
Gpu gpu_of_rank(int local_rank);

/// "NCCL" and "cuDNN" with their versions, those that can be loaded. Only where there is a GPU: loading them
/// takes a tenth of a second.
std::map<std::string, std::string> gpu_libraries();

}  // namespace tutti::doctor
