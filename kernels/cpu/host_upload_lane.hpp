#pragma once
// An upload lane where the device computes in host memory: nothing is copied.

#include <algorithm>
#include <cassert>
#include <vector>

#include "tutti/device/upload_lane.hpp"

namespace tutti {

class HostUploadLane final : public UploadLane {
  public:
    explicit HostUploadLane(std::size_t parts) : parts_(parts) {}

    void begin(std::span<const std::span<const std::byte>> parts) override {
        assert(!begun_ && parts.size() == parts_.size());
        // Who takes them may only read: the contract says so, and a TensorView cannot.
        std::transform(parts.begin(), parts.end(), parts_.begin(),
                       [](std::span<const std::byte> part) { return const_cast<std::byte*>(part.data()); });
        begun_ = true;
    }
    std::span<std::byte* const> take() override {
        assert(begun_);
        return parts_;
    }
    void release() override { begun_ = false; }
    void wait_until_read() override {}

  private:
    std::vector<std::byte*> parts_;
    bool begun_ = false;
};

}  // namespace tutti
