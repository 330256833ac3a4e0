#pragma once
// Signals that ask the process to stop in good order.

namespace tutti {

/// From now on SIGUSR1 waits until there is a StopSignal, which notes it: a preemption notice that comes
/// while the program starts, MPI above all, would end it. Call it before there are threads.
void hold_preemption_notice() noexcept;
/// For work that ends by it in no order of its own: from now on it ends the process, also one that came
/// meanwhile.
void release_preemption_notice() noexcept;

/// For a process that knows its exit code and has only to say so and leave: from now on SIGTERM changes
/// nothing. mpirun sends it to all ranks as soon as the first has ended with another code than 0, while the
/// others still leave MPI with the same one. What hangs there ends by its own time-out, by SIGKILL, which
/// launchers send next, or by SIGINT, which ends the process as usual.
void keep_exit_code(int code) noexcept;
/// When all has been written after that: SIGTERM ends the process half a second later, with that code. A rank
/// that has saved may wait in MPI_Finalize for a launcher's daemons that are gone, and would be killed there,
/// by Open MPI a second after SIGTERM. One that is about to leave MPI has that time for it: mpirun takes a
/// rank that ends within MPI for one that failed, and itself ends with 1. Nothing where no code is kept.
void leave_on_term() noexcept;

/// While it lives, SIGUSR1 (preemption notice), SIGTERM, SIGINT and, unless it was ignored (nohup), SIGHUP
/// are noted instead of ending the process. A second SIGINT ends it as usual. Afterwards SIGUSR1 is ignored,
/// the others end the process (SIGTERM not after keep_exit_code). One that is made while another lives is the
/// same once more: what was noted stays, and nothing ends before the first does. Make it on the process's
/// first thread, to which the kernel gives a process's signals: that thread receives them on a stack of their
/// own (sigaltstack), as generated code may use its stack in ways of its own.
class StopSignal {
  public:
    StopSignal();
    ~StopSignal();
    StopSignal(const StopSignal&) = delete;
    StopSignal& operator=(const StopSignal&) = delete;

    /// The number of the last signal that came, or 0. Cheap; any thread.
    static int pending() noexcept;
    /// For one thread beside the work: returns once a signal has been noted, or for each wake().
    static void wait() noexcept;
    static void wake() noexcept;
    /// Seconds since the first SIGTERM, or a negative number when none came.
    static double seconds_since_term() noexcept;
};

}  // namespace tutti
