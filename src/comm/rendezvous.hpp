#pragma once
// Private to comm: ranks that know only MASTER_ADDR and MASTER_PORT find each other.
//
// Rank 0 listens on the first free port from MASTER_PORT on (torchrun's agent may hold MASTER_PORT itself);
// the others try the same ports in turn, up to one where nobody listens, and now and then all. Both sides
// open with a magic number and the job's identity, so that whoever else listens or knocks there is told
// apart; the listener closes as soon as all have come. There is no secret: who can reach the port in that
// time and knows the job's name can join it.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tcp_socket.hpp"
#include "tutti/base/error.hpp"
#include "tutti/comm/launch.hpp"

namespace tutti {

/// All ranks, connected to rank 0. Not thread-safe.
class Rendezvous {
  public:
    /// Ports that are tried, from the meeting point's on.
    static constexpr int ports = 16;

    /// Collective. Throws PeerError when a rank has not come, or has left, within `timeout` seconds (0: for
    /// ever); rank 0 names the missing ones, and tells those that have come. Throws LaunchError when `point`
    /// has a name that does not resolve within 5 s, and on every rank when one of this job comes with another
    /// size, or with a rank that has come already or is 0, and knocks for a quarter of `timeout`, but at most
    /// 20 s: until then it may belong to another job by hand at this port, whose rank 0 is yet to come, or
    /// which is soon complete; and on every rank that knocks in the next 2 s when rank 0 may open no more
    /// files. Time in which this rank was suspended counts nowhere. report: told once what a wait of more
    /// than 10 s is for. steady: seconds on any steady clock. timeout_name: what errors call `timeout`.
    Rendezvous(int rank, int size, const MeetingPoint& point, double timeout,
               const std::function<void(const std::string&)>& report,
               std::function<double()> steady = steady_seconds,
               std::string timeout_name = "distributed.timeout");

    /// The number by which the other ranks reach this one: loopback only when all are on one host.
    const std::string& address() const { return address_; }

    /// Every rank's text, by rank, on every rank. Collective. Throws PeerError.
    std::vector<std::string> exchange(const std::string& mine);

    /// Ranks that have closed their connection to this one (they have ended): on rank 0 any, else rank 0.
    /// Never waits; any thread, until release().
    std::vector<int> closed() const;

    /// The connections, when all is exchanged: on rank 0 by rank (its own is empty), else one, to rank 0.
    std::vector<TcpSocket> release() { return std::move(peers_); }

  private:
    void host(const MeetingPoint& point, const std::function<void(const std::string&)>& report);
    void join(const MeetingPoint& point, const std::function<void(const std::string&)>& report);
    void assign_addresses();
    /// On rank 0: every rank that has come gets this error instead of a text, and so does the caller.
    [[noreturn]] void end_all(const Error& error);
    void send_text(const TcpSocket& to, const std::string& text, int peer) const;
    std::string receive_text(const TcpSocket& from, int peer) const;

    int rank_;
    int size_;
    double timeout_;  ///< seconds
    std::string timeout_name_;
    WaitClock clock_;
    Deadline deadline_;  ///< after it nobody is waited for
    std::string address_;
    std::vector<TcpSocket> peers_;  ///< on rank 0: by rank (its own is empty); else: one, to rank 0
};

/// What a rank says first, and what rank 0 answers. Bytes on the wire; exposed for tests.
struct Hello {
    char magic[8] = {'T', 'U', 'T', 'T', 'I', '-', '2', '>'};
    char job[64] = {};  ///< SHA-256 of the job's name and size, hexadecimal
    std::int32_t rank = 0;
    std::int32_t size = 0;
    /// Of rank 0, which may hear itself: a number that only this process says. Else 0.
    std::uint64_t teller = 0;
};
struct Welcome {
    char magic[8] = {'T', 'U', 'T', 'T', 'I', '-', '1', '<'};
    char job[64] = {};
    std::int32_t taken = 0;  ///< not 0: this rank has already come, or the size is another; try the next port
};
/// Welcome::taken of one that need not try: the job ends, and what to say follows as a text, behind its
/// length.
constexpr std::int32_t misfit_for_good = 2;
Hello hello_of(const MeetingPoint& point, int rank, int size);
/// Whether rank 0 of this job says it, and to this one.
bool answers(const Welcome& welcome, const Hello& hello);

}  // namespace tutti
