#pragma once
// Private to comm: the end of MPI has a time-out, too.

#include <functional>
#include <string>

#include "tutti/base/steady_seconds.hpp"
#include "watch_thread.hpp"

namespace tutti {

/// While it lives, a thread looks after the end of MPI: MPI_Finalize waits for all ranks, and without end for
/// one that hangs. After `seconds` (0: never), of which time in which this process was suspended is none, it
/// says so, as `who` ("rank 0 on node1"), and ends this process with exit code 5.
class EndWatch {
  public:
    /// steady: seconds on any steady clock.
    EndWatch(std::string who, double seconds, std::function<double()> steady = steady_seconds);

  private:
    WatchThread thread_;
};

}  // namespace tutti
