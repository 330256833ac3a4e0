#include "cuda_upload_lane.hpp"

#include <cassert>

#include "gpu_error.hpp"

namespace tutti::cuda {
namespace {

/// Of one batch. Kernels read samples in vectors: every part begins where cudaMalloc's memory would.
std::size_t staging_bytes(std::span<const UploadPart> parts) {
    std::size_t total = 0;
    for (const UploadPart& part : parts) total += with_padding(part.bytes);
    return total;
}

}  // namespace

std::size_t CudaUploadLane::bytes(std::span<const UploadPart> parts) {
    std::size_t fixed = 0;
    for (const UploadPart& part : parts)
        if (part.one_address) fixed += part.bytes;
    return stagings_at_once * staging_bytes(parts) + fixed;
}

CudaUploadLane::CudaUploadLane(std::shared_ptr<CudaContext> context, std::span<const UploadPart> parts)
    : context_(std::move(context)), parts_(parts.begin(), parts.end()), taken_parts_(parts.size()) {
    const std::size_t total = staging_bytes(parts);
    for (const UploadPart& part : parts)
        fixed_.push_back(part.one_address ? std::make_unique<DeviceMemory>(part.bytes, "a batch's labels")
                                          : nullptr);
    for (Staging& staging : stagings_) {
        staging.memory = std::make_unique<DeviceMemory>(total, "batches on their way");
        std::byte* next = staging.memory->data();
        for (const UploadPart& part : parts) {
            staging.parts.push_back(next);
            next += with_padding(part.bytes);
        }
        staging.bytes.resize(parts.size());
    }
}

CudaUploadLane::~CudaUploadLane() {
    try {
        copies_.synchronize();
    } catch (const RunError&) {
        // What the GPU died of is told by whoever waits for its results.
    }
}

void CudaUploadLane::begin(std::span<const std::span<const std::byte>> parts) {
    assert(begun_ - released_ < stagings_.size() && parts.size() == parts_.size());
    Staging& staging = stagings_[begun_ % stagings_.size()];
    copies_.wait(staging.consumed);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        assert(parts[i].size() <= parts_[i].bytes);
        staging.bytes[i] = parts[i].size();
        if (parts[i].empty()) continue;
        check(cudaMemcpyAsync(staging.parts[i], parts[i].data(), parts[i].size(), cudaMemcpyHostToDevice,
                              copies_.get()),
              "cudaMemcpyAsync of a batch");
    }
    staging.copied.record(copies_.get());
    ++begun_;
}

std::span<std::byte* const> CudaUploadLane::take() {
    assert(taken_ < begun_ && taken_ == released_);
    Staging& staging = stagings_[taken_ % stagings_.size()];
    context_->compute().wait(staging.copied);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        taken_parts_[i] = fixed_[i] ? fixed_[i]->data() : staging.parts[i];
        if (fixed_[i] && staging.bytes[i] > 0)
            check(cudaMemcpyAsync(fixed_[i]->data(), staging.parts[i], staging.bytes[i],
                                  cudaMemcpyDeviceToDevice, context_->stream()),
                  "cudaMemcpyAsync within the GPU");
    }
    ++taken_;
    return taken_parts_;
}

void CudaUploadLane::release() {
    assert(released_ < taken_);
    stagings_[released_ % stagings_.size()].consumed.record(context_->stream());
    ++released_;
}

void CudaUploadLane::wait_until_read() {
    // The stream copies in order: the last one's end is that of all.
    if (begun_ > 0) stagings_[(begun_ - 1) % stagings_.size()].copied.synchronize();
}

}  // namespace tutti::cuda
