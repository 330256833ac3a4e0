#pragma once
// How long a rank has waited for its peers, not counting time in which it did not run itself.

#include <algorithm>

namespace tutti {

/// Counts what lies between looks at the clock, at most a second of each: a longer time is one in which this
/// rank did not run or did other work. A job that was suspended has peers that were, too.
class WaitedTime {
  public:
    /// Seconds on any steady clock.
    explicit WaitedTime(double now) : last_(now) {}

    /// Looks, and gives the seconds waited until now.
    double at(double now) {
        waited_ += std::min(now - last_, longest);
        last_ = now;
        return waited_;
    }

  private:
    static constexpr double longest = 1;

    double last_, waited_ = 0;
};

}  // namespace tutti
