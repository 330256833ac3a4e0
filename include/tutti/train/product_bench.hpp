#pragma once
// What a device reaches in plain matrix products: the yardstick of a step.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tutti/device/device.hpp"

namespace tutti {

/// Seconds of y[n, n] = x[n, n] · weight[n, n]ᵀ, which is 2n³ operations.
struct ProductTimes {
    std::int64_t n = 0;
    std::vector<double> seconds;  ///< of each repetition
    /// Operations per second of the median.
    double rate() const;
};

/// Products by the operator that linear layers use, with the device's threads, in an arithmetic of layers: in
/// mixed bf16 with the conversion of x and weight, as in a layer. The device must outlive it.
class ProductBench {
  public:
    /// Throws RunError when there is not enough memory.
    ProductBench(Device& device, Arithmetic arithmetic, std::span<const std::int64_t> sizes);
    ~ProductBench();

    /// Adds as many repetitions of each size; the first call first runs each once that does not count.
    void run(int repetitions);
    std::span<const ProductTimes> times() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
