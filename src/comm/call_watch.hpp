#pragma once
// Private to comm: a call of MPI that does not come back.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "tutti/base/steady_seconds.hpp"
#include "watch_thread.hpp"

namespace tutti {

/// Tells another thread whether the one that calls MPI is in it, and whether it moves on. Nobody but that one
/// thread takes turns.
class CallPulse {
  public:
    /// While it lives the thread is with MPI: in a call, or between two that follow one another. They may be
    /// nested.
    class Turn {
      public:
        /// pulse: null where nobody looks.
        explicit Turn(CallPulse* pulse) : pulse_(pulse) {
            if (pulse_ == nullptr) return;
            was_inside_ = pulse_->now() != 0;
            beat();
        }
        ~Turn() {
            if (pulse_ == nullptr) return;
            if (was_inside_)
                beat();
            else
                pulse_->now_.store(0, std::memory_order_relaxed);
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

        /// The call before has come back.
        void beat() {
            if (pulse_ != nullptr) pulse_->now_.store(++pulse_->beats_, std::memory_order_relaxed);
        }

      private:
        CallPulse* pulse_;
        bool was_inside_ = false;
    };

    /// 0 outside of MPI; else a number that each call has of its own.
    std::uint64_t now() const { return now_.load(std::memory_order_relaxed); }

    /// How long a call may take, in seconds; 0: for ever.
    void set_timeout(double seconds) { timeout_.store(seconds, std::memory_order_relaxed); }
    double timeout() const { return timeout_.load(std::memory_order_relaxed); }

  private:
    std::uint64_t beats_ = 0;
    std::atomic<std::uint64_t> now_ = 0;
    std::atomic<double> timeout_ = 0;
};

/// While it lives, a thread looks whether a call of MPI comes back. None of those that ranks make while they
/// train waits for a peer, but Open MPI 4.1 never leaves one in which a write to a dead peer fails: its event
/// loop finds the closed socket ready for ever, and whatever else the rank would notice it does not get to.
/// Where a call lasts for `patience` and a peer has ended, or for the pulse's time-out, this is said as an
/// error of `who` ("rank 0 on node1"), and this process ends with exit code 5. Time in which the process was
/// suspended does not count.
class CallWatch {
  public:
    static constexpr double patience = 5;  ///< seconds; calls that find nothing take microseconds

    /// pulse: must outlive it. lost: names ranks that have ended, or nothing; it is called from that thread.
    /// steady: seconds on any steady clock. Where no thread is to be had nobody looks.
    CallWatch(std::string who, const CallPulse& pulse, std::function<std::string()> lost,
              std::chrono::milliseconds between_looks = std::chrono::milliseconds(500),
              std::function<double()> steady = steady_seconds);

  private:
    void watch(const CallPulse& pulse, const std::function<std::string()>& lost,
               const std::function<double()>& steady);
    [[noreturn]] void end(double lasted, const std::string& why) const;

    const std::string who_;
    const std::chrono::milliseconds between_looks_;
    WatchThread thread_;  // the last: it uses the others
};

}  // namespace tutti
