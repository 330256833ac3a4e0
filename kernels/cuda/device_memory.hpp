#pragma once
// Device memory: whole allocations, and scratch that operators share.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "stream.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

/// Up to where the next tensor may begin: aligned as cudaMalloc promises, and more than any access needs.
constexpr std::size_t with_padding(std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    return (bytes + alignment - 1) / alignment * alignment;
}

/// One allocation, aligned to 4096 bytes (cudaMalloc promises 256). Contents arbitrary. Freeing waits for the
/// GPU.
class DeviceMemory {
  public:
    /// Throws GpuError that says how much, for what, and what is free.
    DeviceMemory(std::size_t bytes, const std::string& purpose);
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    std::byte* data() const { return data_; }

  private:
    void* allocation_ = nullptr;
    std::byte* data_ = nullptr;
};

/// Host memory that is page-locked: the GPU copies from it while the host goes on. Contents arbitrary. To be
/// freed only when no copy is under way.
class PinnedMemory {
  public:
    /// Throws GpuError that says how much, and for what.
    PinnedMemory(std::size_t bytes, const std::string& purpose);
    ~PinnedMemory();
    PinnedMemory(const PinnedMemory&) = delete;
    PinnedMemory& operator=(const PinnedMemory&) = delete;

    std::byte* data() const { return static_cast<std::byte*>(data_); }

  private:
    void* data_ = nullptr;
};

/// Memory for one operator at a time: work in one stream is done in order, so the next may overwrite what the
/// last has left. Grows to the largest need and stays.
class Scratch {
  public:
    Scratch(const char* purpose, Stream stream) : purpose_(purpose), stream_(stream) {}
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    /// At least `bytes`. Ends the life of earlier reservations; when it must grow, it waits for the stream.
    std::byte* reserve(std::size_t bytes);
    TensorView tensor(DType dtype, const Shape& shape) {
        return {reserve(static_cast<std::size_t>(shape.count()) * size_of(dtype)), dtype, shape};
    }

    /// How often memory that was handed out was given back.
    std::uint64_t replaced() const { return replaced_; }

  private:
    const char* purpose_;
    Stream stream_;
    std::unique_ptr<DeviceMemory> memory_;
    std::size_t size_ = 0;
    std::uint64_t replaced_ = 0;
};

}  // namespace tutti::cuda
