#pragma once
// Private to comm: MPI_Init waits without end for a rank that never calls it.

#include <filesystem>
#include <functional>
#include <string>

#include "deadline.hpp"
#include "tutti/comm/session.hpp"
#include "watch_thread.hpp"

namespace tutti {

/// The ranks of this launch whose processes run on this host, as their environments in `proc` show
/// (PMIX_NAMESPACE, PMIX_RANK). "ranks 0, 2 of the 3" where one that mpirun counted on this host is missing;
/// nothing where all are there, where that cannot be seen, and while the launcher still has processes to
/// become ranks. `own`: this process's environment.
std::string ranks_left_on_host(const Environment& own, const std::filesystem::path& proc = "/proc");

/// Why MPI_Init may wait, as far as this host shows it: the lowest rank of this launch here that is stopped
/// ("rank 1, process 4711, is stopped"), else one that has not come so far ("rank 1, process 4711 (sleep),
/// has not called it"); "ranks 0, 1 of this host wait there, the others are missing" where all that can be
/// seen have; nothing where none can.
/// A rank has come whose process has a thread of the name `waiting_thread`.
std::string late_ranks_on_host(const Environment& own, const std::filesystem::path& proc = "/proc");
inline constexpr const char* waiting_thread = "tutti-mpi-init";

/// When what ranks_left_on_host says is certain: the same ranks, three times in a row. One may be on its way
/// from one look to the next.
class LooksInARow {
  public:
    /// What the next look has shown; whether it is certain.
    bool certain_after(const std::string& left);

  private:
    std::string left_;
    int looks_ = 0;
};

/// While it lives, a thread looks after the start of MPI, and ends this process with exit code 5 and the
/// reason when a rank of this host has ended before it came to MPI_Init (LooksInARow, one second apart), or
/// after patience.mpi_init seconds, with what late_ranks_on_host tells. After patience.peers seconds it
/// warns, once. Time in which this process was suspended does not count. mpirun itself ends a job only for a
/// rank that failed.
class StartWatch {
  public:
    /// steady: seconds on any steady clock.
    StartWatch(Environment environment, const StartPatience& patience,
               std::function<double()> steady = steady_seconds);

  private:
    void look_on(const Environment& environment, const StartPatience& patience, WaitClock& clock);

    WatchThread thread_;
};

}  // namespace tutti
