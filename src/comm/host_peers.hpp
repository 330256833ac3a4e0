#pragma once
// Private to comm: what the kernel of this host knows of the ranks that run on it.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

/// Where a rank's process is to be found; plain bytes, to be gathered from all ranks.
struct ProcessPlace {
    std::uint64_t host = 0;        ///< hash of the host's name
    std::uint64_t namespace_ = 0;  ///< of process numbers: containers may have their own
    std::int64_t process = 0;
    std::uint64_t started = 0;  ///< the kernel's clock tick; tells a process from a later one of that number
};

/// Of a process of this host, as /proc shows it (proc(5)); `process` is 0 where there is no /proc of this
/// namespace.
ProcessPlace place_of_process(std::int64_t process, const std::string& host);

/// The other ranks on this host. A rank that was killed can say nothing, and the launcher's word may come
/// late or, where it does not watch the ranks, never. While /proc cannot be read (no more files may be
/// opened), nothing is said of anybody.
class HostPeers {
  public:
    /// host: this host's name; places: by rank.
    HostPeers(int rank, std::string host, const std::vector<ProcessPlace>& places);

    /// How long to wait between looks: each costs some 20 us per peer, so this is a thousandth of one core at
    /// any number of peers.
    std::chrono::milliseconds interval() const;
    /// "rank 1 on node7, process 4711, has ended", or nothing: the lowest such rank.
    std::string ended() const;
    /// The same of one that has ended or "is stopped" (SIGSTOP, a debugger).
    std::string ended_or_stopped() const;

  private:
    struct Peer {
        int rank = 0;
        ProcessPlace place;
    };
    std::string name(const Peer& peer) const;

    std::string host_;
    std::vector<Peer> peers_;
};

}  // namespace tutti
