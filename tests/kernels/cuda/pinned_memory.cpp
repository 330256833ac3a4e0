// Memory that a GPU's kernels and the host both see, one after the other: page-locked host memory, which the
// GPU reads and writes across the bus, at the host's address (CUDA C++ Programming Guide, "Unified Virtual
// Address Space"). No managed memory, whose pages would move at every look of the host.

#include <cuda_runtime_api.h>

#include "../test_memory.hpp"
#include "gpu_error.hpp"

namespace tutti::test {

void* allocate_memory(std::size_t bytes) {
    void* memory = nullptr;
    cuda::check(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), "cudaHostAlloc");
    return memory;
}
void free_memory(void* memory) noexcept {
    cudaDeviceSynchronize();  // operators may have begun what nobody has looked at; their error is told by
                              // others
    cudaFreeHost(memory);
}
void finish_work() {
    cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace tutti::test
