#include "device_memory.hpp"

#include <algorithm>
#include <cstdint>

#include "gpu_error.hpp"

namespace tutti::cuda {
namespace {

constexpr std::size_t alignment = 4096;

std::string in_mib(std::size_t bytes) {
    return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

/// ", of which 12 MiB are free"; nothing where CUDA does not say.
std::string free_memory() {
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return {};
    return " (" + in_mib(free) + " of " + in_mib(total) + " are free)";
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes, const std::string& purpose) {
    const cudaError_t status = cudaMalloc(&allocation_, std::max<std::size_t>(bytes, 1) + alignment);
    if (status != cudaSuccess)
        check(status, "cudaMalloc of " + in_mib(bytes) + " for " + purpose + free_memory());
    const auto address = reinterpret_cast<std::uintptr_t>(allocation_);
    data_ = static_cast<std::byte*>(allocation_) + (alignment - address % alignment) % alignment;
}
DeviceMemory::~DeviceMemory() {
    cudaFree(allocation_);
}

PinnedMemory::PinnedMemory(std::size_t bytes, const std::string& purpose) {
    check(cudaHostAlloc(&data_, std::max<std::size_t>(bytes, 1), cudaHostAllocDefault),
          "cudaHostAlloc of " + in_mib(bytes) + " for " + purpose);
}
PinnedMemory::~PinnedMemory() {
    cudaFreeHost(data_);
}

std::byte* Scratch::reserve(std::size_t bytes) {
    if (!memory_ || bytes > size_) {
        check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
        if (memory_) ++replaced_;
        memory_.reset();  // first: the old and the new need not fit together
        memory_ = std::make_unique<DeviceMemory>(bytes, purpose_);
        size_ = bytes;
    }
    return memory_->data();
}

}  // namespace tutti::cuda
