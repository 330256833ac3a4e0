#pragma once
// Private to comm: what the calls of a job over MPI share, and what a rank does while its peers do not come.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "call_watch.hpp"
#include "host_peers.hpp"
#include "peer_watch.hpp"
#include "roll_call.hpp"

namespace tutti {

/// A call that waits for peers.
struct PeerWait {
    std::function<std::string()> call;  ///< "all_reduce of 1024 f32", for messages
    int rank = 0;                       ///< this one
    /// Ranks from which nothing has come, as far as that can be told; may be empty.
    std::function<std::vector<int>()> awaited = {};
};

/// What a communicator, its transfers and its duplicates share.
struct Job {
    using Clock = std::chrono::steady_clock;

    double timeout = 0;
    std::int64_t largest_piece = 0;
    std::function<void(const std::string&)> notice;
    bool noticed = false;
    std::string broken;  ///< why no peer can be waited for any more; empty while all is well
    std::shared_ptr<const HostPeers> peers = {};  ///< null: nobody to look at
    std::vector<std::string> hosts = {};          ///< by rank; empty: not known
    std::shared_ptr<PeerWatch> star = {};         ///< null: no connections to other hosts' ranks
    std::shared_ptr<RollCall> roll = {};          ///< null: nobody to ask
    std::shared_ptr<CallPulse> pulse = {};        ///< of the process; null: nobody looks whether calls return
    Clock::time_point next_look = {}, next_listen = {};

    /// Between polls, `waited` seconds after the call began to wait: looks whether peers have ended, answers
    /// ranks that ask who waits, and says once that it still waits after SIGTERM. Throws PeerError where
    /// nobody is to be waited for any more: a peer has ended, one has waited too long, or this rank has.
    void watch(const PeerWait& wait, Clock::time_point now, double waited);

  private:
    void say_if_told_to_end(const PeerWait& wait);
    void look_at_peers(const PeerWait& wait, Clock::time_point now, double waited);
    void answer_who_waits(const PeerWait& wait, Clock::time_point now, double waited);
    /// "nothing came from rank 1 on node2", as far as anybody can tell, and what to do.
    struct Finding {
        std::string text = {};
        const char* remedy = nullptr;
    };
    Finding finding_of(const RollCall::Verdict& verdict) const;
    Finding who_is_missing(const PeerWait& wait) const;
};

}  // namespace tutti
