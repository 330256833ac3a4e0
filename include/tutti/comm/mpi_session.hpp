#pragma once
// MPI from start to end of the process.

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// MPI_Init_thread(FUNNELED) … MPI_Finalize. Make one, in main, on the thread that communicates. When the
/// program leaves by an exception that peers do not share, call world(…)->abort(code) instead of destroying
/// it.
class MpiSession {
  public:
    /// Throws LaunchError when MPI cannot be started.
    MpiSession();
    ~MpiSession();
    MpiSession(const MpiSession&) = delete;
    MpiSession& operator=(const MpiSession&) = delete;

    int rank() const;
    int size() const;
    /// Rank and number of ranks on this host (MPI_Comm_split_type(SHARED)).
    int local_rank() const;
    int local_size() const;
    /// MPI_Get_processor_name.
    std::string host() const;
    /// "Open MPI v4.1.4 …", one line.
    static std::string library_version();

    /// A communicator of all ranks; host memory. timeout: seconds a rank waits for its peers (0: for ever).
    /// Not a collective call; all that it returns share one order of calls: duplicate() gives an independent
    /// one.
    /// notice: called once with a diagnosis when a rank still waits 0.3 s after SIGTERM. mpirun sends SIGTERM
    /// to the survivors of a dead rank and ends them about a second later; a scheduler sends it to ranks that
    /// are all alive, so the wait goes on.
    using Notice = std::function<void(const std::string&)>;
    std::unique_ptr<Communicator> world(double timeout, Notice notice = {});

    /// The sum over all ranks of MPI_COMM_WORLD by one blocking MPI_Allreduce, in place, f32: what a program
    /// of its own would call. For comparisons: a peer that does not come is waited for without end.
    void bare_all_reduce(std::span<float> buffer);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace tutti
