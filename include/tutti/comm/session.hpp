#pragma once
// The ranks of a job from start to end of the process, however they found each other.

#include <functional>
#include <memory>
#include <string>

#include "tutti/comm/communicator.hpp"
#include "tutti/comm/launch.hpp"

namespace tutti {

/// What a rank knows of its job. Make one, in main, on the thread that communicates. When the program leaves
/// by an exception that peers do not share, call world(…)->abort(code) instead of destroying it.
class Session {
  public:
    virtual ~Session() = default;

    virtual int rank() const = 0;
    virtual int size() const = 0;
    /// Rank and number of ranks on this host.
    virtual int local_rank() const = 0;
    virtual int local_size() const = 0;
    virtual std::string host() const = 0;
    /// How the ranks found each other.
    virtual Bootstrap bootstrap() const = 0;

    /// Called once with a diagnosis when a rank still waits 0.3 s after SIGTERM. mpirun sends SIGTERM to the
    /// survivors of a dead rank and ends them about a second later; a scheduler sends it to ranks that are
    /// all alive, so the wait goes on.
    using Notice = std::function<void(const std::string&)>;
    /// A communicator of all ranks; host memory. timeout: seconds a rank waits for its peers (0: for ever).
    /// Not a collective call; all that it returns share one order of calls: duplicate() gives an independent
    /// one.
    virtual std::unique_ptr<Communicator> world(double timeout, Notice notice = {}) = 0;
};

/// Seconds that ranks wait for each other where no communicator has a time-out of its own; 0: for ever.
struct StartPatience {
    double peers = 300;      ///< at the meeting point, and for the first words after MPI's start
    double mpi_init = 1800;  ///< for MPI to start on all ranks, which a large job may take minutes for
    double mpi_end = 300;    ///< for MPI to end on all ranks, behind a barrier
    double wished = 0;       ///< distributed.timeout, where it is less than `peers`; else 0

    /// What errors of the start call it: "distributed.timeout (3 here, at least 30 at the start)", the
    /// bracket only where it is less.
    std::string timeout_name() const;
};

/// Starts MPI, or meets the peers at MASTER_ADDR and MASTER_PORT, as the environment demands
/// (see bootstrap_of). report: told what a long wait is for. Throws LaunchError (the launch cannot work, MPI
/// does not start, this program was built without gloo) and PeerError (a peer did not come); ends the process
/// with ExitCode::peer and the reason where MPI_Init itself waits too long. Whether MPI's size is the
/// launch's is for the caller to ask: see mismatch_with_mpi.
std::unique_ptr<Session> start_session(const Environment& environment, const StartPatience& patience,
                                       const Session::Notice& report);

}  // namespace tutti
