#pragma once
// Waits that add up to what was asked for, although each may end late.

#include <sys/prctl.h>
#include <time.h>

#include <chrono>

namespace tutti {

class TimedWait {
  public:
    /// Asks the kernel not to round this thread's timers (50 µs by default, prctl(2)).
    TimedWait() { ::prctl(PR_SET_TIMERSLACK, 1UL); }

    /// What has been late until now stays late.
    void forget() { late_ = {}; }

    void wait(double seconds) {
        const Clock::time_point until =
            Clock::now() +
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)) - late_;
        // A sleeper comes back late by some 0.05 ms at best: the rest is spent awake.
        constexpr std::chrono::microseconds awake{100};
        if (until - Clock::now() > awake) sleep_until(until - awake);
        while (Clock::now() < until) {
        }
        late_ = Clock::now() - until;
    }

  private:
    using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC

    static void sleep_until(Clock::time_point time) {
        const auto nanoseconds =
            std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
        const timespec at{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
        while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) != 0) {
        }
    }

    Clock::duration late_{};
};

}  // namespace tutti
