#pragma once
// Samples per second, loss and time left, for the terminal and the log.

#include <chrono>
#include <cstdint>
#include <string>

#include "tutti/base/log.hpp"

namespace tutti {

/// Rank 0's. On a terminal one line that renews itself some times a second; elsewhere a plain line now and
/// then.
class ProgressReport {
  public:
    using Clock = std::chrono::steady_clock;
    explicit ProgressReport(Log& log) : log_(log) {}

    void start(std::int64_t samples, Clock::time_point now = Clock::now());
    /// After each update.
    void update(std::int64_t step, std::int64_t total_steps, std::int64_t epoch, std::int64_t epochs,
                std::int64_t samples, double loss, Clock::time_point now = Clock::now());

  private:
    Log& log_;
    Clock::time_point begin_{}, shown_{};
    std::int64_t begin_step_ = -1, shown_samples_ = 0;
};

}  // namespace tutti
