#pragma once
// Work of a device that is recorded once and then issued as a whole, run after run, which costs the host one
// call in place of one per operation. On a GPU: a CUDA graph, captured from the computing stream (CUDA
// Programming Guide, "CUDA Graphs").

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// What recorded work takes anew at each run. All else that the host passed by value while it was recorded,
/// addresses and shapes above all, stays as it was.
struct RunValues {
    std::int64_t epoch = 0;                   ///< StepContext::epoch
    std::span<const std::int64_t> positions;  ///< StepContext::positions
    double loss_scale = 1;                    ///< the scale of the loss's backward
};

class RecordedWork {
  public:
    virtual ~RecordedWork() = default;
    /// False once memory that it works in was given back (scratch grows): it must be recorded again.
    virtual bool current() const = 0;
    /// Issues all of it, behind everything that was issued before, and returns at once. Precondition
    /// (asserted): current().
    virtual void run() = 0;
};

/// Of one device, by its thread.
class WorkRecorder {
  public:
    virtual ~WorkRecorder() = default;

    /// For the runs from now on; copied in the order of the device's work. The values may change at once.
    virtual void set(const RunValues& values) = 0;

    /// Calls `issue`, whose operations are recorded and not done. Where an operator is given the epoch, the
    /// positions or the scale of the last set() (the very same span), the runs take what set() has told
    /// before each of them. What allocates, what waits for the device, copies to and from the host, and
    /// operators that take other numbers which change from step to step (optimizers, scale, lerp) throw
    /// RunError; nothing is recorded then. Everything must have been done once before with the same shapes,
    /// so that plans and workspaces are there. Transfers between ranks are recorded where the communicator
    /// can be (Communicator::why_not_recordable) and must be waited for within `issue`.
    virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& issue) = 0;

    /// Copies `values`, at most `most_fetched` bytes, to the host behind what was issued so far, and does not
    /// wait.
    virtual void fetch(const TensorView& values) = 0;
    static constexpr std::size_t most_fetched = 256;
    /// Whether the last fetch has come.
    virtual bool fetched() = 0;
    /// What has come; valid until the next fetch. Precondition: fetched().
    virtual const std::byte* result() const = 0;
};

}  // namespace tutti
