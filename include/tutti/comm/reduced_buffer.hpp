#pragma once
// Floats of the host that ranks reduce in the memory of their devices.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tutti/comm/communicator.hpp"
#include "tutti/device/device.hpp"

namespace tutti {

/// Without a device the host's floats are themselves what is reduced. With one they are copied to its memory
/// and back: the communicator's own memory where it has some (Communicator::allocate), as gradients lie in.
/// One thread; to be gone before the communicator.
class ReducedBuffer {
  public:
    /// Zeros. Collective over `control`, ranks' host memory, and with a device over `communicator`. Throws
    /// AgreedError (exit 2, with `remedy`) where a rank has no host memory for `floats`, (exit 1) where its
    /// device has none.
    ReducedBuffer(Communicator& communicator, Communicator& control, Device* device, std::size_t floats,
                  const std::string& remedy);

    /// The first `floats`, on the host.
    std::span<float> host(std::size_t floats) { return std::span(floats_).first(floats); }
    /// The same where they are reduced, after a copy there; `give` is the way back.
    TensorView take(std::size_t floats);
    void give(std::size_t floats);

  private:
    TensorView view(std::size_t floats);

    Device* device_;
    std::vector<float> floats_;
    Buffer memory_;
};

}  // namespace tutti
