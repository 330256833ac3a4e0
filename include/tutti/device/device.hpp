#pragma once
// A device: where arenas live and who computes on them.

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tutti/base/arithmetic.hpp"
#include "tutti/device/buffer.hpp"
#include "tutti/device/device_marks.hpp"
#include "tutti/device/ops.hpp"
#include "tutti/device/upload_lane.hpp"

namespace tutti {

class WorkRecorder;

/// Created by app::select, one per rank; used by one thread. All work of a device is ordered as issued; on
/// the CPU each call has finished when it returns.
class Device {
  public:
    virtual ~Device() = default;

    /// "cpu", "cuda".
    virtual std::string kind() const = 0;
    /// For people: "AMD EPYC, 4 threads, oneDNN 2.6"; ", AMX" behind it where bf16 goes through a matrix
    /// unit.
    virtual std::string description() const = 0;
    /// Threads of the host that compute an operation together.
    virtual int threads() const { return 1; }

    /// A step of a training begins, which is like the one before it: the device may have learned from that
    /// how to compute faster. No bit of a result depends on it.
    virtual void begin_step() {}

    /// Calls body(lane) for lane 0 (by the calling thread) to lanes − 1 at once, each on one thread of the
    /// host: what body computes, and what it makes for computing, is for that thread alone, so no number of
    /// lanes changes its bits. A lane may be left out where the system gives no thread; bodies share work by
    /// taking it piece by piece. Operators and Ops are for one lane at a time (make_lane). When all have
    /// ended, throws what one of the bodies has thrown. Not nested. Where the host does not compute: lane 0
    /// alone.
    virtual void run_lanes(int lanes, const std::function<void(int lane)>& body) {
        if (lanes > 0) body(0);
    }
    /// Memory of operations for one lane beside others: a device of one thread that computes the same bits.
    /// Null where there are no lanes.
    virtual std::unique_ptr<Device> make_lane() { return nullptr; }

    /// Zeroed memory. Throws RunError (how much was asked for, and for what) when there is not enough.
    virtual Buffer allocate(std::size_t bytes, const std::string& purpose) = 0;

    virtual void copy_from_host(const TensorView& device, const void* host) = 0;
    virtual void copy_to_host(void* host, const TensorView& device) = 0;

    /// Host memory from which the device copies on its own (page-locked), contents arbitrary. Throws RunError
    /// as allocate does.
    virtual Buffer allocate_host(std::size_t bytes, const std::string& purpose) = 0;
    /// Whether upload lanes copy one batch ahead of the one that is computed.
    virtual bool uploads_ahead() const = 0;
    virtual std::unique_ptr<UploadLane> make_upload_lane(std::span<const UploadPart> parts) = 0;
    /// What such a lane takes of the device's own memory.
    virtual std::size_t upload_lane_bytes(std::span<const UploadPart>) const { return 0; }

    /// The operations in one arithmetic, of which a DType alone is the plain kind. The reference stays valid
    /// as long as the device. Throws UsageError when this device does not compute that way.
    virtual Ops& ops(Arithmetic arithmetic) = 0;

    /// From now on `poll` is called now and then during long operations, between parts of them, by the thread
    /// that called this one and only while it computes; no bit of a result depends on that. What it throws
    /// leaves the operation, whose results are then undefined. `poll` must not use the device. Empty:
    /// nobody. Where the host does not compute, operations return at once, and the function is never called.
    virtual void set_progress(std::function<void()> poll) = 0;

    /// Told what a user should know of how this device computes, each once (an operation that a library
    /// refuses and that goes another way, threads that wait for their cores), by any thread. Empty: nobody.
    virtual void set_notice(std::function<void(const std::string&)>) {}

    /// From now on an operation that a library has several engines for is computed, in shapes that are new,
    /// by the one that was fastest in trials, which its first call makes; false: by the library's first
    /// choice. Which one is fastest, and so how results are rounded, may differ from process to process; on
    /// one device an operation keeps its engine. A notice tells what came of it, once steps make no more
    /// trials. Nothing where there are no such libraries.
    virtual void set_engine_trials(bool) {}

    /// Null where operations have finished when they return, so that the host's clock tells their times.
    virtual std::unique_ptr<DeviceMarks> make_marks() { return nullptr; }

    /// Records work that is then issued as a whole (device/recorder.hpp); it lives as long as the device.
    /// Null where that saves nothing, because operations have finished when they return.
    virtual WorkRecorder* recorder() { return nullptr; }
};

/// The CPU with `threads` computing threads. Sets the number of OpenMP threads of the process.
std::unique_ptr<Device> make_cpu_device(int threads);

/// The library that does most of its arithmetic, with its version: "oneDNN 2.6.3".
std::string cpu_arithmetic();

}  // namespace tutti
