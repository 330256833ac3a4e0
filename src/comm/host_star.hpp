#pragma once
// Private to comm: which host has lost its first rank? MPI does not tell, and may end this process for it.

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "peer_watch.hpp"

namespace tutti {

struct Handle;

/// Connections of the first rank of every host with rank 0. On a host the ranks watch each other (see
/// HostPeers). A thread says on standard error, once, that a rank has ended: Open MPI's TCP ends a process
/// within a millisecond after a peer's connection is gone, without a word that names the rank.
class HostStar {
  public:
    /// As PeerWatch.
    HostStar(int rank, const std::vector<std::string>& hosts, std::vector<TcpSocket> star);
    ~HostStar();
    HostStar(const HostStar&) = delete;
    HostStar& operator=(const HostStar&) = delete;

    /// As PeerWatch. Any thread.
    std::string departed();

  private:
    void look_on(std::vector<int> connections);

    std::string own_name_;
    bool first_rank_;
    std::mutex mutex_;
    PeerWatch watch_;
    TcpSocket wake_, woken_;  ///< the two ends of what wakes the thread for its end
    std::thread thread_;
};

/// Null where all ranks are on one host, on the others of a host, and where no address of rank 0 answers
/// within 2 s: then nothing tells. The port is open only meanwhile; who has not the word that MPI brought is
/// sent away. Collective.
std::shared_ptr<HostStar> watch_hosts(const std::shared_ptr<Handle>& world, int local_rank);

}  // namespace tutti
