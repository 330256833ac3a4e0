#pragma once
// What a device reaches in a plain pass over memory: the yardstick of an optimizer.

#include <cstdint>
#include <memory>

#include "tutti/device/device.hpp"

namespace tutti {

/// y[n] += x[n] by the device's threads: of each element two numbers are read and one is written in place, so
/// that, unlike in STREAM's kernels (J. D. McCalpin, 1995), nothing is fetched only to be overwritten. The
/// device must outlive it.
class MemoryBench {
  public:
    /// Over so many bytes, x and y together. dtype: f32 or f64. Throws RunError when there is not enough
    /// memory.
    MemoryBench(Device& device, DType dtype, std::int64_t bytes);
    ~MemoryBench();

    /// Adds as many passes; the first call first makes one that does not count.
    void run(int passes);
    /// Bytes read and written per second of the median pass; 0 before any, and of no bytes.
    double rate() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
