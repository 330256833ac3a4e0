#pragma once
// When a device came to certain points of its work, where calls return before their work has ended.

#include <chrono>
#include <cstddef>

namespace tutti {

/// Marks in the order of a device's work. Memory for as many as were set between two clear() is kept. One
/// thread, the device's; not while work is recorded (WorkRecorder).
class DeviceMarks {
  public:
    using Clock = std::chrono::steady_clock;
    virtual ~DeviceMarks() = default;

    /// Forgets all marks.
    virtual void clear() = 0;
    /// A mark behind all that was issued to the device so far. Its number: they count from 0 on.
    virtual std::size_t set() = 0;
    /// Waits until the device has passed all marks and all else that was issued. Throws what that died of.
    virtual void wait() = 0;
    /// After wait(): when the device passed a mark, by the host's clock. Between marks as exact as the device
    /// measures it; all of them are late by what the host took to see that wait() was over.
    virtual Clock::time_point passed(std::size_t mark) const = 0;
};

}  // namespace tutti
