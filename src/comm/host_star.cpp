#include "host_star.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <random>
#include <sstream>

#include "mpi_communicator.hpp"
#include "mpi_transfer.hpp"
#include "waiting.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds patience{2};

/// What who connects says first.
struct Greeting {
    std::array<std::uint64_t, 2> word{};
    std::int64_t rank = 0;
};

/// The numbers of this host's interfaces that are up, without loopback.
std::vector<std::string> own_addresses() {
    std::vector<std::string> result;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return result;
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 ||
            (one->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        const int family = one->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6) continue;
        std::array<char, NI_MAXHOST> text{};
        const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        // An address of one link alone (fe80::) has the name of its interface, which is another one
        // elsewhere.
        if (getnameinfo(one->ifa_addr, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0 &&
            std::strchr(text.data(), '%') == nullptr)
            result.emplace_back(text.data());
    }
    freeifaddrs(list);
    return result;
}

int port_of(const TcpSocket& listener) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
    return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                               : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

/// "word word port address address …"
std::string invitation(const Greeting& expected, const TcpSocket& listener) {
    std::string text = std::to_string(expected.word[0]) + " " + std::to_string(expected.word[1]) + " " +
                       std::to_string(port_of(listener));
    for (const std::string& address : own_addresses()) text += " " + address;
    return text;
}

/// A connection to rank 0 on which `rank` has introduced itself, or an empty socket.
TcpSocket answer(const std::string& invitation, int rank) {
    std::istringstream words(invitation);
    Greeting mine{.rank = rank};
    int port = 0;
    words >> mine.word[0] >> mine.word[1] >> port;
    const Deadline deadline = Clock::now() + patience;
    for (std::string address; port > 0 && words >> address;) {
        TcpSocket socket = connect_tcp(address, port, std::min(deadline, Clock::now() + patience / 4));
        if (socket && socket.send(std::as_bytes(std::span(&mine, 1)), deadline)) return socket;
    }
    return {};
}

/// Rank 0: the connections of `expected` ranks that say they have come, by rank.
std::vector<TcpSocket> admit(const TcpSocket& listener, const Greeting& greeting, std::int64_t expected,
                             int size) {
    std::vector<TcpSocket> star(static_cast<std::size_t>(size));
    const Deadline deadline = Clock::now() + patience;
    while (expected > 0 && Clock::now() < deadline) {
        pollfd entry{listener.descriptor(), POLLIN, 0};
        ::poll(&entry, 1, 50);
        TcpSocket socket = accept_tcp(listener);
        Greeting theirs;
        if (!socket || !socket.receive(std::as_writable_bytes(std::span(&theirs, 1)), deadline) ||
            theirs.word != greeting.word || theirs.rank <= 0 || theirs.rank >= size)
            continue;
        star[static_cast<std::size_t>(theirs.rank)] = std::move(socket);
        --expected;
    }
    return star;
}

}  // namespace

HostStar::HostStar(int rank, const std::vector<std::string>& hosts, std::vector<TcpSocket> star)
    : own_name_("rank " + std::to_string(rank) + " on " + hosts[static_cast<std::size_t>(rank)]),
      first_rank_(rank == 0) {
    std::array<int, 2> ends{-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0) {
        wake_ = TcpSocket(ends[0]);
        woken_ = TcpSocket(ends[1]);
    }
    std::vector<int> connections;
    for (const TcpSocket& socket : star)
        if (socket) connections.push_back(socket.descriptor());
    watch_ = PeerWatch(rank, hosts, std::move(star));
    if (!woken_) return;
    // Signals are for the thread that trains.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this, connections = std::move(connections)] { look_on(connections); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

HostStar::~HostStar() {
    wake_.close();
    if (thread_.joinable()) thread_.join();
}

std::string HostStar::departed() {
    const std::lock_guard lock(mutex_);
    return watch_.departed();
}

void HostStar::look_on(std::vector<int> connections) {
    while (!connections.empty()) {
        std::vector<pollfd> entries = {{woken_.descriptor(), POLLIN, 0}};
        for (const int connection : connections) entries.push_back({connection, POLLIN, 0});
        if (::poll(entries.data(), entries.size(), -1) < 0) continue;
        if (entries.front().revents != 0) return;
        std::string ended;
        {
            const std::lock_guard lock(mutex_);
            ended = watch_.departed(true);
        }
        if (!ended.empty()) {
            // What rank 0 has learnt it says itself.
            if (first_rank_ || ended.starts_with("rank 0 "))
                std::cerr << "error: " + own_name_ + " has lost a peer: " + ended + "; " + ended_remedy + "\n"
                          << std::flush;
            return;
        }
        // Whoever has said goodbye stays readable.
        std::erase_if(connections, [&](int connection) {
            return std::any_of(entries.begin(), entries.end(), [&](const pollfd& entry) {
                return entry.fd == connection && entry.revents != 0;
            });
        });
    }
}

std::shared_ptr<HostStar> watch_hosts(const std::shared_ptr<Handle>& world, int local_rank) {
    const auto communicator = make_mpi_communicator(world);
    std::int64_t hosts = local_rank == 0 ? 1 : 0;
    communicator->all_reduce(view_of(std::span(&hosts, 1)), ReduceOp::sum).wait();
    if (hosts == 1) return nullptr;

    TcpSocket listener;
    Greeting greeting;
    std::string text;
    if (world->rank == 0) {
        std::random_device random;
        for (std::uint64_t& word : greeting.word) word = (std::uint64_t{random()} << 32U) | random();
        listener = listen_tcp(0, false);
        if (listener) text = invitation(greeting, listener);
    }
    text = broadcast_text(*communicator, text, 0);
    std::vector<TcpSocket> star;
    if (local_rank == 0 && world->rank != 0) star.push_back(answer(text, world->rank));

    // The listener holds them until rank 0, which is in here, too, looks at them.
    std::int64_t came = !star.empty() && star.front() ? 1 : 0;
    const std::int64_t watched = came;
    communicator->all_reduce(view_of(std::span(&came, 1)), ReduceOp::sum).wait();
    const std::vector<std::string> names = all_gather_text(*communicator, mpi_host());
    if (world->rank == 0) star = admit(listener, greeting, came, world->size);
    if (world->rank == 0 ? came == 0 : watched == 0) return nullptr;
    return std::make_shared<HostStar>(world->rank, names, std::move(star));
}

}  // namespace tutti
