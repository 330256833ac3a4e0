#include "rendezvous.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "greeting.hpp"
#include "namesakes.hpp"
#include "network_interfaces.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/host_name.hpp"
#include "tutti/base/open_files.hpp"
#include "tutti/base/sha256.hpp"

namespace tutti {
namespace {

using Report = std::function<void(const std::string&)>;

template <class T>
std::span<std::byte> bytes_of(T& value) {
    return std::as_writable_bytes(std::span(&value, 1));
}

std::string place_of(const MeetingPoint& point) {
    return point.address + ":" + std::to_string(point.port);
}

/// Tells what a long wait is for, once.
class Patience {
  public:
    Patience(const Report& report, WaitClock& clock) : report_(report), when_(clock, 10) {}
    void still_waiting(const std::function<std::string()>& what) {
        if (told_ || !report_ || !when_.passed()) return;
        told_ = true;
        report_(what());
    }

  private:
    const Report& report_;
    bool told_ = false;
    Deadline when_;
};

/// Whether a rank of this job says it, also one of another size, but no rank 0 of that: it looks for nobody.
bool is_of_job(const Hello& hello, const MeetingPoint& point, int size) {
    const Hello known = hello_of(point, hello.rank, hello.size);
    return std::memcmp(hello.job, known.job, sizeof hello.job) == 0 && hello.rank >= 0 &&
           hello.rank < hello.size && (hello.rank > 0 || hello.size == size);
}

Welcome welcome_to(const Hello& hello, std::int32_t taken) {
    Welcome answer;
    std::memcpy(answer.job, hello.job, sizeof answer.job);
    answer.taken = taken;
    return answer;
}

/// Where a connection comes from, for people.
std::string place_of(const TcpSocket& socket) {
    const std::string address = socket.peer_address();
    return address.empty() || is_loopback(address) ? host_name() : address;
}

/// Rank 0 is at the first port that nobody held when it came. Those behind one where nobody listens are
/// looked at once in so many rounds, about a second, for one that has become free since: others may listen
/// there who take whoever knocks for somebody else, as gloo does.
constexpr int rounds_of_free_ports = 20;

constexpr const char* check_numbers =
    "give each process a RANK of its own, from 0 to WORLD_SIZE - 1, and all the same WORLD_SIZE, or another "
    "job another MASTER_PORT";

/// Ranks of this job that have no place in it: mistakes of a launch by hand, or of another such job, whose
/// ranks go to their own rank 0 at another port; or all, where this process may open no more files.
class Misfits {
  public:
    Misfits(int size, double timeout, WaitClock& clock)
        : size_(size), patience_(timeout > 0 ? std::min(longest, timeout / 4) : longest), clock_(clock) {}

    /// One that has come once more; `seat`: who has its rank, if anybody (rank 0's is empty: this process).
    void note(const Hello& hello, const TcpSocket& socket, const TcpSocket* seat) {
        const double now = clock_.now();
        Seen& seen = seen_[{hello.rank, hello.size, place_of(socket)}];
        if (now - seen.last > gap) seen.first = now;
        seen.last = now;
        if (problem_ || now - seen.first < patience_) return;
        const std::string rank = "rank " + std::to_string(hello.rank);
        const std::string problem =
            hello.size != size_
                ? rank + " on " + place_of(socket) + " has WORLD_SIZE " + std::to_string(hello.size) +
                      ", and rank 0 on " + host_name() + " " + std::to_string(size_)
                : "two processes are " + rank + " of " + std::to_string(size_) + ": one on " +
                      place_of(*seat) + " and one on " + place_of(socket);
        end_with(LaunchError(problem, check_numbers));
    }
    /// Nobody gets in any more, for this reason.
    void end_with(const LaunchError& problem) {
        problem_ = problem;
        until_.emplace(clock_, 2);
    }

    /// Nothing, or what is wrong for good.
    const std::optional<LaunchError>& problem() const { return problem_; }
    /// Whether others like it have had the time to hear of it.
    bool all_know() const { return until_ && until_->passed(); }

  private:
    static constexpr double longest = 20;
    // Who has found its own rank 0 knocks no more; the next may be of yet another job.
    static constexpr double gap = 5;

    struct Seen {
        double first = 0, last = -std::numeric_limits<double>::infinity();
    };
    int size_;
    double patience_;  ///< seconds
    WaitClock& clock_;
    std::map<std::tuple<int, int, std::string>, Seen> seen_;
    std::optional<LaunchError> problem_;
    std::optional<Deadline> until_;
};

bool at_limit_of_files(int reason) {
    return reason == EMFILE || reason == ENFILE;
}

/// The missing ranks, "2, 3 and 5 more".
std::string missing(const std::vector<TcpSocket>& peers) {
    std::string names;
    std::size_t count = 0;
    for (std::size_t rank = 1; rank < peers.size(); ++rank) {
        if (peers[rank]) continue;
        if (count < 8) names += (count == 0 ? "" : ", ") + std::to_string(rank);
        ++count;
    }
    if (count > 8) names += " and " + std::to_string(count - 8) + " more";
    return (count == 1 ? "rank " : "ranks ") + names;
}

TcpSocket listen_near(const MeetingPoint& point, int& port) {
    // Of the other addresses of this kind (::1; Debian's 127.0.1.1 of a host's own name) a listener at
    // 127.0.0.1 hears nothing: there at all addresses.
    const bool loopback = point.address == "localhost" || point.address == "127.0.0.1";
    for (port = point.port; port < point.port + Rendezvous::ports && port <= 65535; ++port)
        if (TcpSocket listener = listen_tcp(port, loopback)) return listener;
    throw LaunchError("rank 0 on " + host_name() + " finds no free port from " + std::to_string(point.port) +
                          " to " + std::to_string(port - 1),
                      "set MASTER_PORT to another one, the same on every rank");
}

// Names of hosts that have just started may take a moment to appear, in seconds.
constexpr double name_patience = 5;

// What rank 0 has to say of its own time-out must reach the others before theirs, which may have begun
// earlier, in seconds.
constexpr double grace = 3;

// In the length of a text: it is not that, but why there will be none.
constexpr std::uint64_t last_word = std::uint64_t{1} << 63U;
// With it: why the launch is wrong, and not what has happened to a peer.
constexpr std::uint64_t of_launch = std::uint64_t{1} << 62U;

std::string shown(double seconds) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%g s", seconds);
    return text.data();
}

std::string check_launch(const std::string& timeout_name) {
    return "look for the first error of another rank, and check that every rank has the same MASTER_ADDR, "
           "MASTER_PORT and WORLD_SIZE, that MASTER_ADDR is the host of rank 0, and that SLURM_JOB_ID is set "
           "on all of them or on none (ssh does not carry it over); " +
           timeout_name + " is how long to wait";
}
constexpr const char* look_at_peer = "look for its error, or raise distributed.timeout if it is only slow";

/// To somebody who waits for a text: why there will be none.
void say_last(const TcpSocket& to, const Error& error, WaitClock& clock) {
    const Deadline soon(clock, 1);
    const std::string text = error.what();
    std::uint64_t length = text.size() | last_word | (error.code() == ExitCode::launch ? of_launch : 0);
    if (to.send(bytes_of(length), soon)) to.send(std::as_bytes(std::span(text)), soon);
}

}  // namespace

Hello hello_of(const MeetingPoint& point, int rank, int size) {
    Sha256 digest;
    digest.update(point.job);
    digest.update("\n" + std::to_string(size));
    Hello hello;
    std::memcpy(hello.job, digest.hex().data(), sizeof hello.job);
    hello.rank = rank;
    hello.size = size;
    return hello;
}

bool answers(const Welcome& welcome, const Hello& hello) {
    const Welcome expected = welcome_to(hello, 0);
    return std::memcmp(welcome.magic, expected.magic, sizeof welcome.magic) == 0 &&
           std::memcmp(welcome.job, expected.job, sizeof welcome.job) == 0;
}

Rendezvous::Rendezvous(int rank, int size, const MeetingPoint& point, double timeout, const Report& report,
                       std::function<double()> steady, std::string timeout_name)
    : rank_(rank),
      size_(size),
      timeout_(timeout),
      timeout_name_(std::move(timeout_name)),
      clock_(std::move(steady)),
      deadline_(clock_, timeout > 0 ? timeout : std::numeric_limits<double>::infinity()) {
    // Also rank 0, which could do without: it would wait for ranks that cannot come.
    const std::string unknown = resolve_problem(point.address, deadline_.or_within(name_patience));
    if (!unknown.empty())
        throw LaunchError(
            "rank " + std::to_string(rank) + " on " + host_name() +
                " cannot resolve MASTER_ADDR=" + point.address + " (" + unknown + ")",
            "set MASTER_ADDR to the name or the address of rank 0's host, the same on every rank");
    if (rank == 0)
        host(point, report);
    else
        join(point, report);
    assign_addresses();
}

void Rendezvous::host(const MeetingPoint& point, const Report& report) {
    Misfits misfits(size_, timeout_, clock_);
    peers_.resize(static_cast<std::size_t>(size_));
    allow_open_files(peers_.size());
    int port = 0;
    const TcpSocket listener = listen_near(point, port);
    // For when no more files may be opened.
    TcpSocket spare(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Hello expected;
    std::vector<Stranger<Hello>> strangers;
    Namesakes namesakes(point, size_, port, clock_);
    Patience patience(report, clock_);

    for (int present = 1; present < size_;) {
        patience.still_waiting([&] {
            return "rank 0 waits for " + missing(peers_) + " at " + point.address + ":" +
                   std::to_string(port);
        });
        if (deadline_.passed())
            end_all(PeerError("rank 0 on " + host_name() + ": " + missing(peers_) + " of " +
                                  std::to_string(size_) + " did not come to " + point.address + ":" +
                                  std::to_string(port) + " within " + shown(timeout_),
                              check_launch(timeout_name_)));

        if (misfits.all_know()) end_all(*misfits.problem());
        if (const TcpSocket other = namesakes.ask()) try {
                receive_text(other, 0);
            } catch (const LaunchError& error) {
                end_all(error);
            } catch (const PeerError&) {  // it has ended before it said so
            }

        std::vector<pollfd> entries = {{listener.descriptor(), POLLIN, 0}};
        for (const auto& one : strangers) entries.push_back({one.socket.descriptor(), POLLIN, 0});
        // Who has come says nothing more before all have: readable means ended.
        for (const TcpSocket& one : peers_)
            if (one) entries.push_back({one.descriptor(), POLLIN, 0});
        ::poll(entries.data(), entries.size(), 200);

        if (TcpSocket socket = accept_tcp(listener)) {
            strangers.emplace_back(std::move(socket));
        } else if (const int reason = errno; at_limit_of_files(reason) && !misfits.problem()) {
            misfits.end_with(LaunchError("rank 0 on " + host_name() + " cannot take in " + missing(peers_) +
                                             " of " + std::to_string(size_) + ": " + std::strerror(reason),
                                         too_many_open_files_remedy()));
            spare.close();  // by which the others hear of it, one after the other
        }
        for (auto& stranger : strangers) {
            const auto hello = stranger.hear(std::as_bytes(std::span(expected.magic)));
            if (!hello) continue;
            // Who has hung up behind it comes again.
            std::array<std::byte, 1> more{};
            if (is_of_job(*hello, point, size_) && !namesakes.is_own(*hello) &&
                stranger.socket.receive_some(more)) {
                TcpSocket* const seat =
                    hello->size == size_ ? &peers_[static_cast<std::size_t>(hello->rank)] : nullptr;
                const bool fits = seat && !*seat && hello->rank > 0 && !misfits.problem();
                if (!fits && !misfits.problem()) misfits.note(*hello, stranger.socket, seat);
                const bool for_good = !fits && misfits.problem();
                Welcome answer = welcome_to(*hello, fits ? 0 : for_good ? misfit_for_good : 1);
                const bool sent = stranger.socket.send(bytes_of(answer), Deadline(clock_, 1));
                if (sent && for_good) say_last(stranger.socket, *misfits.problem(), clock_);
                if (sent && fits) {
                    *seat = std::move(stranger.socket);
                    ++present;
                }
            }
            stranger.socket.close();
        }
        std::erase_if(strangers, [](const auto& one) { return !one.socket; });

        for (std::size_t peer = 1; peer < peers_.size(); ++peer) {
            std::array<std::byte, 1> nothing{};
            if (peers_[peer] && !peers_[peer].receive_some(nothing))
                end_all(PeerError("rank " + std::to_string(peer) + " ended before all ranks had met",
                                  "look for its error"));
        }
    }
}

void Rendezvous::join(const MeetingPoint& point, const Report& report) {
    Hello mine = hello_of(point, rank_, size_);
    Patience patience(report, clock_);
    for (int round = 1; !deadline_.passed(); ++round) {
        for (int port = point.port; port < point.port + ports && port <= 65535; ++port) {
            const Deadline soon = deadline_.or_within(2);
            TcpSocket socket = connect_tcp(point.address, port, soon);
            if (!socket && round % rounds_of_free_ports != 0) break;
            Welcome answer{};
            if (!socket || !socket.send(bytes_of(mine), soon) || !socket.receive(bytes_of(answer), soon))
                continue;
            if (!answers(answer, mine)) continue;
            if (answer.taken == misfit_for_good) receive_text(socket, 0);  // throws
            if (answer.taken != 0) continue;
            peers_.push_back(std::move(socket));
            return;
        }
        patience.still_waiting([&] {
            return "rank " + std::to_string(rank_) + " on " + host_name() + " waits for rank 0 at " +
                   place_of(point);
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    throw PeerError("rank " + std::to_string(rank_) + " on " + host_name() + " does not find rank 0 at " +
                        place_of(point) + " within " + shown(timeout_),
                    check_launch(timeout_name_));
}

// A rank on rank 0's host came over loopback or over that host's own name, which often resolves to loopback;
// the ranks of other hosts could not reach it there.
void Rendezvous::assign_addresses() {
    if (rank_ != 0) {
        address_ = receive_text(peers_.front(), 0);
        return;
    }
    address_ = "127.0.0.1";
    for (std::size_t peer = 1; peer < peers_.size(); ++peer)
        if (!is_loopback(peers_[peer].peer_address())) address_ = peers_[peer].local_address();
    for (std::size_t peer = 1; peer < peers_.size(); ++peer) {
        const std::string seen = peers_[peer].peer_address();
        send_text(peers_[peer], is_loopback(seen) ? address_ : seen, static_cast<int>(peer));
    }
}

std::vector<std::string> Rendezvous::exchange(const std::string& mine) {
    std::vector<std::string> all(static_cast<std::size_t>(size_));
    if (rank_ != 0) {
        send_text(peers_.front(), mine, 0);
        for (std::string& text : all) text = receive_text(peers_.front(), 0);
        return all;
    }
    all[0] = mine;
    std::optional<PeerError> lost;
    for (std::size_t peer = 1; peer < all.size(); ++peer) try {
            all[peer] = receive_text(peers_[peer], static_cast<int>(peer));
        } catch (const PeerError& error) {
            if (!lost) lost = error;
        }
    if (lost) end_all(*lost);
    for (std::size_t peer = 1; peer < all.size(); ++peer)
        for (const std::string& text : all) send_text(peers_[peer], text, static_cast<int>(peer));
    return all;
}

std::vector<int> Rendezvous::closed() const {
    std::vector<int> ranks;
    for (std::size_t seat = 0; seat < peers_.size(); ++seat) {
        // Also behind bytes that are still to be read.
        pollfd end{peers_[seat].descriptor(), POLLRDHUP, 0};
        if (peers_[seat] && ::poll(&end, 1, 0) > 0) ranks.push_back(static_cast<int>(seat));
    }
    return ranks;
}

void Rendezvous::end_all(const Error& error) {
    for (const TcpSocket& peer : peers_)
        if (peer) say_last(peer, error, clock_);
    if (error.code() == ExitCode::launch) throw LaunchError(error.what());
    throw PeerError(error.what());
}

void Rendezvous::send_text(const TcpSocket& to, const std::string& text, int peer) const {
    std::uint64_t length = text.size();
    if (to.send(bytes_of(length), deadline_) && to.send(std::as_bytes(std::span(text)), deadline_)) return;
    throw PeerError("rank " + std::to_string(rank_) + " on " + host_name() + " lost rank " +
                        std::to_string(peer) + " while the ranks met",
                    "look for the first error of another rank");
}

std::string Rendezvous::receive_text(const TcpSocket& from, int peer) const {
    const Deadline deadline = rank_ == 0 ? deadline_ : deadline_.later(grace);
    std::uint64_t length = 0;
    std::string text;
    bool whole = from.receive(bytes_of(length), deadline);
    const bool is_text = (length & last_word) == 0;
    const bool launch = (length & of_launch) != 0;
    length &= ~(last_word | of_launch);
    whole = whole && length < (1U << 30);
    if (whole) {
        text.resize(length);
        whole = from.receive(std::as_writable_bytes(std::span(text)), deadline);
    }
    if (whole && is_text) return text;
    if (whole && launch) throw LaunchError(text);
    if (whole) throw PeerError(text);
    const std::string from_here = "rank " + std::to_string(rank_) + " on " + host_name();
    const std::string address = from.peer_address();
    const std::string who =
        "rank " + std::to_string(peer) + (address.empty() || is_loopback(address) ? "" : " at " + address);
    if (!deadline.passed())
        throw PeerError(from_here + " lost " + who + " while the ranks met", "look for its error");
    throw PeerError(from_here + ": " + who + " has come, but says nothing more since " + shown(timeout_),
                    look_at_peer);
}

}  // namespace tutti
