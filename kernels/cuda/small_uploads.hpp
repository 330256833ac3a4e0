#pragma once
// Values of the host on their way to the device, in memory that stays until they have been read.

#include <cstddef>
#include <list>
#include <memory>

#include "device_memory.hpp"
#include "streams.hpp"

namespace tutti::cuda {

/// Page-locked memory for one copy at a time: CUDA promises of no other when cudaMemcpyAsync has read it
/// (CUDA Runtime API, "API synchronization behavior": from pageable memory the call "might be synchronous").
/// Not while the stream is captured.
class UploadSlot {
  public:
    UploadSlot() = default;
    /// Waits as reserve() does.
    ~UploadSlot();
    UploadSlot(const UploadSlot&) = delete;
    UploadSlot& operator=(const UploadSlot&) = delete;

    /// Whether the last copy has been made.
    bool read() const { return copied_.reached(); }
    /// At least `bytes` to be written; waits until the last copy has been made.
    std::byte* reserve(std::size_t bytes);
    /// Copies what reserve() gave to the device, in stream order.
    void send(std::byte* target, std::size_t bytes, Stream stream);

  private:
    std::unique_ptr<PinnedMemory> memory_;
    std::size_t size_ = 0;
    Event copied_;
};

/// As many slots as copies are under way, up to a limit from which on the host waits for the first of them.
class SmallUploads {
  public:
    /// The host's values may change at once.
    void send(const void* values, std::byte* target, std::size_t bytes, Stream stream);

  private:
    std::list<UploadSlot> slots_;  // the one that was used last is the last
};

}  // namespace tutti::cuda
