#pragma once
// How long a rank has waited for its peers, not counting time in which it did not run itself.

#include <algorithm>

namespace tutti {

/// Counts what lies between looks at the clock, at most a second of each, or a quarter of the time-out where
/// that is less: a longer time is one in which this rank did not run or did other work. A job that was
/// suspended has peers that were, too.
class WaitedTime {
  public:
    /// Seconds on any steady clock. timeout: for how long it waits; 0: for ever, or it says so otherwise.
    explicit WaitedTime(double now, double timeout = 0)
        : longest_(timeout > 0 ? std::min(timeout / 4, 1.0) : 1.0), last_(now) {}

    /// Looks, and gives the seconds waited until now.
    double at(double now) {
        waited_ += std::min(now - last_, longest_);
        last_ = now;
        return waited_;
    }

  private:
    double longest_, last_, waited_ = 0;
};

}  // namespace tutti
