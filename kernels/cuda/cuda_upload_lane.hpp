#pragma once
// Batches on their way to the GPU: from page-locked host memory, in a stream of their own, into two staging
// buffers by turns.

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "cuda_context.hpp"
#include "device_memory.hpp"
#include "streams.hpp"
#include "tutti/device/upload_lane.hpp"

namespace tutti::cuda {

/// Who waits for whom, by events, without the host:
///   copy of batch k -> `copied` -> the computing stream's work on it (normalisation) -> `consumed`
///   `consumed` of batch k -> copy of batch k + 2, which overwrites its staging buffer
/// and the host waits for `copied` before it fills the memory that was read anew.
class CudaUploadLane final : public UploadLane {
  public:
    /// Throws GpuError.
    CudaUploadLane(std::shared_ptr<CudaContext> context, std::span<const UploadPart> parts);
    /// Of device memory, that a lane of these parts allocates.
    static std::size_t bytes(std::span<const UploadPart> parts);
    ~CudaUploadLane() override;

    void begin(std::span<const std::span<const std::byte>> parts) override;
    std::span<std::byte* const> take() override;
    void release() override;
    void wait_until_read() override;

  private:
    static constexpr std::size_t stagings_at_once = 2;
    struct Staging {
        std::unique_ptr<DeviceMemory> memory;
        std::vector<std::byte*> parts;
        std::vector<std::size_t> bytes;  // of the batch that is in it
        Event copied, consumed;
    };

    std::shared_ptr<CudaContext> context_;
    OwnedStream copies_;
    std::array<Staging, stagings_at_once> stagings_;
    std::vector<UploadPart> parts_;
    std::vector<std::unique_ptr<DeviceMemory>> fixed_;  // of parts with one address; null for others
    std::vector<std::byte*> taken_parts_;
    std::size_t begun_ = 0, taken_ = 0, released_ = 0;  // batches
};

}  // namespace tutti::cuda
