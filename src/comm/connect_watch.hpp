#pragma once
// Private to comm: a rank that ends while the others still connect to it.

#include <functional>
#include <string>

#include "watch_thread.hpp"

namespace tutti {

/// While it lives, a thread looks whether ranks have ended: gloo would try to connect to one of these until
/// the time-out, and tells nobody meanwhile. lost: names them, or nothing; it is called from that thread.
/// Where it has named somebody for half a second, in which the connecting may have failed by itself, what it
/// said first is an error of `who` ("rank 0 on node1"), and ends this process with exit code 5.
class ConnectWatch {
  public:
    ConnectWatch(std::string who, std::function<std::string()> lost);

  private:
    WatchThread thread_;
};

}  // namespace tutti
