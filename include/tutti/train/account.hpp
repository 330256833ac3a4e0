#pragma once
// Where the time of the steps went.

#include <chrono>
#include <string>

namespace tutti {

/// Seconds of one rank, summed over the steps since the last report.
struct Account {
    double data = 0;           ///< waiting for a batch, and moving it into the graph's input
    double forward = 0;        ///< with the loss
    double backward = 0;       ///< with issuing the buckets
    double communication = 0;  ///< waiting for buckets and step sums after backward
    double optimizer = 0;
    double checkpoint = 0;
    double evaluation = 0;

    double total() const {
        return data + forward + backward + communication + optimizer + checkpoint + evaluation;
    }
    /// {"data": …, "forward": …, …}
    std::string to_json() const;
};

/// Adds the time between two calls of lap() to what the lap is given.
class Stopwatch {
  public:
    using Clock = std::chrono::steady_clock;
    void lap(double& seconds) {
        const auto now = Clock::now();
        seconds += std::chrono::duration<double>(now - last_).count();
        last_ = now;
    }
    void restart() { last_ = Clock::now(); }
    /// When the last lap ended.
    Clock::time_point last() const { return last_; }

  private:
    Clock::time_point last_ = Clock::now();
};

}  // namespace tutti
