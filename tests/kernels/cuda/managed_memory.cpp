// Managed memory: a GPU's kernels and the host see the same bytes, one after the other (CUDA C++ Programming
// Guide, "Unified Memory Programming").

#include <cuda_runtime_api.h>

#include "../test_memory.hpp"
#include "gpu_error.hpp"

namespace tutti::test {

void* allocate_memory(std::size_t bytes) {
    // Its first use, also when a tensor is copied, is the host's.
    finish_work();
    void* memory = nullptr;
    cuda::check(cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal), "cudaMallocManaged");
    return memory;
}
void free_memory(void* memory) noexcept {
    cudaFree(memory);
}
void finish_work() {
    cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace tutti::test
