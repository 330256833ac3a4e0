#pragma once
// Private to comm: ranks of different hosts see each other end, where MPI and the launcher may not tell.

#include <memory>
#include <string>
#include <vector>

#include "peer_watch.hpp"

namespace tutti {

struct Handle;

/// A PeerWatch of the lowest rank of each host; whoever else is on a host is seen by HostPeers. Rank 0
/// listens on a free port and tells MPI which, at which addresses, and a secret; the others connect to the
/// address that answers first. Null on all other ranks, and where no connection came about in two seconds:
/// then time-outs alone tell of a lost host. hosts: names by rank. first_of_host: the lowest rank on this
/// one. Collective; where there is one host nothing is sent.
std::shared_ptr<PeerWatch> watch_hosts(const std::shared_ptr<const Handle>& world,
                                       const std::vector<std::string>& hosts, int first_of_host,
                                       bool one_host);

}  // namespace tutti
