#pragma once
// Private to comm: until when a rank waits for others, not counting time in which it did not run itself.

#include <algorithm>
#include <functional>
#include <utility>

#include "tutti/base/steady_seconds.hpp"
#include "waited_time.hpp"

namespace tutti {

/// Seconds of waiting (WaitedTime). Who waits looks at it several times a second, by now() or by a deadline.
/// One thread at a time.
class WaitClock {
  public:
    /// steady: seconds on any steady clock.
    explicit WaitClock(std::function<double()> steady = steady_seconds)
        : steady_(std::move(steady)), waited_(steady_()) {}
    WaitClock(const WaitClock&) = delete;
    WaitClock& operator=(const WaitClock&) = delete;

    double now() { return waited_.at(steady_()); }

  private:
    std::function<double()> steady_;
    WaitedTime waited_;
};

/// A time on a clock, which must outlive it.
class Deadline {
  public:
    /// In so many seconds from now.
    Deadline(WaitClock& clock, double seconds) : clock_(&clock), at_(clock.now() + seconds) {}

    /// Seconds, below 0 when it has passed.
    double left() const { return at_ - clock_->now(); }
    bool passed() const { return left() < 0; }

    /// In so many seconds from now, or this one if that is sooner.
    Deadline or_within(double seconds) const { return {*clock_, std::min(left(), seconds)}; }
    /// So many seconds after this one.
    Deadline later(double seconds) const { return {*clock_, left() + seconds}; }

  private:
    WaitClock* clock_;
    double at_;
};

}  // namespace tutti
