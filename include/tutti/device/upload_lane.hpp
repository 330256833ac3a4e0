#pragma once
// The way of batches from host memory to a device, beside its computation.

#include <cstddef>
#include <span>

namespace tutti {

/// A part of every batch: its samples, its labels.
struct UploadPart {
    std::size_t bytes = 0;  ///< at most
    /// Found at the same address for every batch, and there until the next one is taken: for what a captured
    /// graph of a step reads. Copied once more within the device, so for small parts.
    bool one_address = false;
};

/// First in, first out. Made by Device::make_upload_lane; used by the device's thread. A device that copies
/// ahead takes a second batch while the first is computed; one that computes in host memory (the CPU) copies
/// nothing, and finds the parts where they are. The destructor waits for copies under way.
class UploadLane {
  public:
    virtual ~UploadLane() = default;

    /// Begins to copy a batch, its parts in the order of make_upload_lane, each of any length up to its own;
    /// returns at once. The host's memory must stay as it is until wait_until_read(), and where the device
    /// copies nothing as long as the parts are read. Precondition (asserted): fewer than two batches (one
    /// where nothing is copied ahead) are begun and not released.
    virtual void begin(std::span<const std::span<const std::byte>> parts) = 0;
    /// The oldest batch that was begun and not taken: where its parts are for work that the device is given
    /// from now on, which waits for the copy without the host. To be read only, until release().
    virtual std::span<std::byte* const> take() = 0;
    /// The work given until now was the last to read what was taken: a later batch may overwrite it.
    virtual void release() = 0;
    /// Waits until all batches begun so far have left the host's memory, which may then change.
    virtual void wait_until_read() = 0;
};

}  // namespace tutti
