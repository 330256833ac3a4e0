// Memory that a GPU's kernels and the host both see, one after the other: managed (CUDA C++ Programming
// Guide, "Unified Memory Programming"), or, where the GPU or its virtual machine has none that both may use
// at once (cudaDevAttrConcurrentManagedAccess), page-locked host memory, which the GPU reads and writes
// across the bus.

#include <cuda_runtime_api.h>

#include "../test_memory.hpp"
#include "gpu_error.hpp"

namespace tutti::test {
namespace {

bool is_managed() {
    static const bool managed = [] {
        int device = 0, concurrent = 0;
        cuda::check(cudaGetDevice(&device), "cudaGetDevice");
        cuda::check(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device),
                    "cudaDeviceGetAttribute");
        return concurrent != 0;
    }();
    return managed;
}

}  // namespace

void* allocate_memory(std::size_t bytes) {
    // Its first use, also when a tensor is copied, is the host's.
    finish_work();
    void* memory = nullptr;
    if (is_managed())
        cuda::check(cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal), "cudaMallocManaged");
    else  // the address is the GPU's, too ("Unified Virtual Address Space")
        cuda::check(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), "cudaHostAlloc");
    return memory;
}
void free_memory(void* memory) noexcept {
    is_managed() ? cudaFree(memory) : cudaFreeHost(memory);
}
void finish_work() {
    cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace tutti::test
