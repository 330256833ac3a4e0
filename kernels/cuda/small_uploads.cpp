#include "small_uploads.hpp"

#include <algorithm>
#include <cstring>

#include "gpu_error.hpp"

namespace tutti::cuda {
namespace {

/// A page, and the positions of 511 samples.
constexpr std::size_t least_bytes = 4096;
/// More than a step has operators that take values from the host, in most networks: the host, which is ahead
/// of the GPU, should not wait for it here.
constexpr std::size_t most_slots = 64;

}  // namespace

UploadSlot::~UploadSlot() {
    try {
        copied_.synchronize();
    } catch (const RunError&) {
        // What the GPU died of is told by whoever waits for its results.
    }
}

std::byte* UploadSlot::reserve(std::size_t bytes) {
    if (!read()) copied_.synchronize();
    if (bytes > size_ || !memory_) {
        size_ = 0;
        memory_.reset();
        const std::size_t wanted = std::max(bytes, least_bytes);
        memory_ = std::make_unique<PinnedMemory>(wanted, "small values for the GPU");
        size_ = wanted;
    }
    return memory_->data();
}

void UploadSlot::send(std::byte* target, std::size_t bytes, Stream stream) {
    check(cudaMemcpyAsync(target, memory_->data(), bytes, cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync of small values");
    copied_.record(stream);
}

void SmallUploads::send(const void* values, std::byte* target, std::size_t bytes, Stream stream) {
    if (slots_.empty() || (slots_.size() < most_slots && !slots_.front().read()))
        slots_.emplace_back();
    else
        slots_.splice(slots_.end(), slots_, slots_.begin());
    UploadSlot& slot = slots_.back();
    std::memcpy(slot.reserve(bytes), values, bytes);
    slot.send(target, bytes, stream);
}

}  // namespace tutti::cuda
