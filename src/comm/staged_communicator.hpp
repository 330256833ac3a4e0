#pragma once
// Private to comm: collectives of device memory through the host's.

#include <cstddef>
#include <memory>

#include "tutti/comm/communicator.hpp"
#include "tutti/device/buffer.hpp"

namespace tutti {

/// The way between a device's memory and the host's. One thread.
class HostStaging {
  public:
    virtual ~HostStaging() = default;
    /// Host memory that the device can copy from and to without a detour (pinned).
    virtual Buffer host_memory(std::size_t bytes) = 0;
    /// All that was issued on the device before is seen; the data are there when it returns.
    virtual void to_host(std::byte* host, const TensorView& device) = 0;
    /// The host memory may be used again when it returns; what is issued on the device afterwards sees the
    /// data.
    virtual void to_device(const TensorView& device, const std::byte* host) = 0;
};

/// Any number of ranks may share a GPU: that is what it is for (tests, and GPUs that NCCL cannot use). It
/// copies to pinned memory, which it keeps for the next call, lets `host` work there, and copies back within
/// test() or wait(). Same sums, in the same order, as `host`.
std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host,
                                                       std::shared_ptr<HostStaging> staging);

}  // namespace tutti
