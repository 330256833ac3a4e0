#pragma once
// Private to comm: has a rank ended? Told by connections that carry nothing else.

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tcp_socket.hpp"

namespace tutti {

/// A star: rank 0 watches every rank, every rank watches rank 0, and rank 0 passes on what it learns. A rank
/// that ends in good order says goodbye; who waits for it 5 s later waits in vain. Any thread may ask.
class PeerWatch {
  public:
    /// Watches nobody.
    PeerWatch() = default;
    /// hosts: by rank. star: on rank 0 by rank (its own is empty), else one, to rank 0.
    PeerWatch(int rank, std::vector<std::string> hosts, std::vector<TcpSocket> star);
    PeerWatch(PeerWatch&&) = default;
    PeerWatch& operator=(PeerWatch&&) = default;
    /// Says goodbye, unless a rank has departed.
    ~PeerWatch();

    /// "rank 3 on node7 has ended", or nothing. Looks at most every 20 ms, unless it shall
    /// look at once.
    std::string departed(bool at_once = false);
    /// The same, but waits for it: at most `seconds`, and not where nobody is watched.
    std::string departed_within(double seconds);

  private:
    struct Peer {
        int rank = 0;
        TcpSocket socket;
        bool good_bye = false;
        std::chrono::steady_clock::time_point left{};
        std::string words{};  ///< what it said of another rank, until the end of the line
    };
    std::string look_at(Peer& peer) const;
    std::string look(bool at_once);

    std::unique_ptr<std::mutex> mutex_;  ///< null where nobody is watched
    std::vector<std::string> hosts_;
    std::vector<Peer> peers_;
    std::string departed_;
    std::chrono::steady_clock::time_point next_look_{};
};

}  // namespace tutti
