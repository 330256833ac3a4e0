#pragma once
// Whether others run on the cores of this process's threads.

#include <map>
#include <optional>

#include <sys/types.h>

namespace tutti {

/// Judges window by window (each some 0.5 s), by what seconds_waited_for_cores() says at its end. Shared
/// after `windows_shared` in a row in each of which a thread waited for a core for more than `much` of the
/// time; no longer after `windows_alone` in a row in which none did for more than `little`: so who comes and
/// goes does not turn it with each visit. Two threads on two cores waited for up to 5 % of a window beside
/// loader threads of their own, in runs of high priority beside a compiler for 7 to 11 % in the mean: no
/// reasons. A thread counts from the second window that it lives in.
class SharedCores {
  public:
    static constexpr double much = 0.3, little = 0.15;
    static constexpr int windows_shared = 2, windows_alone = 4, windows_worth_saying = 6;

    /// A window of so many seconds has ended. Returns whether cores are shared.
    bool after_window(const std::map<pid_t, double>& waited, double seconds);

    /// Once, when cores were shared for windows_worth_saying in a row and more: the mean share of the time
    /// for which the thread that waited longest waited, if that is `much`.
    std::optional<double> worth_saying();

  private:
    std::map<pid_t, double> before_;
    bool shared_ = false, said_ = false;
    int crowded_ = 0, alone_ = 0, shared_windows_ = 0;
    double shares_ = 0;
};

}  // namespace tutti
