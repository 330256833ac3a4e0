#include "host_star.hpp"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "greeting.hpp"
#include "mpi_transfer.hpp"
#include "network_interfaces.hpp"
#include "tutti/base/open_files.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;
using Secret = std::array<std::byte, 16>;
constexpr std::chrono::seconds patience(2);
constexpr std::byte welcome{'+'};

/// Plain bytes, as they are broadcast.
struct Invitation {
    std::int32_t port = 0;  ///< 0: nobody listens
    Secret secret{};
    std::array<char, 1000> addresses{};  ///< numeric, each with a line's end
};

struct Hello {
    Secret secret{};
    std::int32_t rank = 0;
};

Invitation invitation_to(const TcpSocket& listener) {
    Invitation sent;
    if (!listener ||
        getrandom(sent.secret.data(), sent.secret.size(), 0) != static_cast<ssize_t>(sent.secret.size()))
        return sent;
    std::string lines;
    for (const std::string& address : own_addresses())
        if (lines.size() + address.size() + 1 < sent.addresses.size()) lines += address + "\n";
    std::ranges::copy(lines, sent.addresses.begin());
    sent.port = listener.local_port();
    return sent;
}

/// One that connects, or has connected, to an address.
struct Attempt {
    TcpSocket socket;
    bool has_greeted = false;

    /// Goes on; whether rank 0 has answered. Closes the socket where nothing will come of it.
    bool answered(const Hello& hello) {
        const auto fail = [&] {
            socket.close();
            return false;
        };
        if (!has_greeted) {
            if (!is_connected(socket)) return fail();
            has_greeted = socket.send_at_once(std::as_bytes(std::span(&hello, 1)));
            return has_greeted ? false : fail();
        }
        std::array<std::byte, 1> answer{};
        const auto came = socket.receive_some(answer);
        if (!came || (*came == 1 && answer[0] != welcome)) return fail();
        return *came == 1;
    }
};

/// The connection to rank 0 by the address that answers first; none where none does in time.
TcpSocket join(const Invitation& invitation, int rank) {
    if (invitation.port == 0) return {};
    const Hello hello{invitation.secret, rank};
    std::vector<Attempt> attempts;
    const std::string lines(invitation.addresses.data());
    for (std::size_t first = 0; first < lines.size();) {
        const std::size_t end = lines.find('\n', first);
        if (TcpSocket socket = begin_connect(lines.substr(first, end - first), invitation.port))
            attempts.push_back({std::move(socket)});
        first = end + 1;
    }
    for (const auto deadline = Clock::now() + patience; !attempts.empty() && Clock::now() < deadline;) {
        std::vector<pollfd> entries;
        for (const Attempt& one : attempts)
            entries.push_back(
                {one.socket.descriptor(), static_cast<short>(one.has_greeted ? POLLIN : POLLOUT), 0});
        ::poll(entries.data(), entries.size(), 50);
        for (std::size_t i = 0; i < attempts.size(); ++i)
            if (entries[i].revents != 0 && attempts[i].answered(hello)) return std::move(attempts[i].socket);
        std::erase_if(attempts, [](const Attempt& one) { return !one.socket; });
    }
    return {};
}

/// Rank 0's side.
class Reception {
  public:
    Reception(TcpSocket listener, const Secret& secret, int ranks)
        : listener_(std::move(listener)), secret_(secret), star_(static_cast<std::size_t>(ranks)) {}

    /// Takes in who is there; waits a moment for one to come.
    void serve() {
        constexpr int moment = 1;
        std::vector<pollfd> entries{{listener_.descriptor(), POLLIN, 0}};
        for (const auto& one : strangers_) entries.push_back({one.socket.descriptor(), POLLIN, 0});
        ::poll(entries.data(), entries.size(), moment);
        while (TcpSocket socket = accept_tcp(listener_)) strangers_.emplace_back(std::move(socket));
        for (auto& one : strangers_)
            if (const auto hello = one.hear()) admit(*hello, std::move(one.socket));
        std::erase_if(strangers_, [](const auto& one) { return !one.socket; });
    }
    std::vector<TcpSocket> release() { return std::move(star_); }

  private:
    void admit(const Hello& hello, TcpSocket socket) {
        if (hello.secret != secret_ || hello.rank <= 0 ||
            static_cast<std::size_t>(hello.rank) >= star_.size())
            return;
        // Who tries several addresses has one welcome, and takes that connection.
        TcpSocket& seat = star_[static_cast<std::size_t>(hello.rank)];
        if (!seat && socket.send_at_once(std::span(&welcome, 1))) seat = std::move(socket);
    }

    TcpSocket listener_;
    Secret secret_;
    std::vector<Stranger<Hello>> strangers_;
    std::vector<TcpSocket> star_;
};

}  // namespace

std::shared_ptr<PeerWatch> watch_hosts(const std::shared_ptr<const Handle>& world,
                                       const std::vector<std::string>& hosts, int first_of_host,
                                       bool one_host) {
    if (one_host) return nullptr;
    const bool invites = world->rank == 0, is_first = first_of_host == world->rank;
    Invitation invitation;
    std::optional<Reception> reception;
    if (invites) {
        allow_open_files(static_cast<std::size_t>(world->size));
        TcpSocket listener = listen_tcp(0, false);
        invitation = invitation_to(listener);
        reception.emplace(std::move(listener), invitation.secret, world->size);
    }
    MpiTransfer invite(world, "meeting other hosts", 1, DType::i64);
    world->check(MPI_Ibcast(&invitation, sizeof invitation, MPI_BYTE, 0, world->comm, invite.add()),
                 "MPI_Ibcast");
    invite.wait();

    TcpSocket to_first;
    if (is_first && !invites) to_first = join(invitation, world->rank);
    // Rank 0 serves until all others have come or given up, and forgets those who gave up after its welcome.
    const char here = to_first ? 1 : 0;
    std::vector<char> are_here(static_cast<std::size_t>(world->size));
    MpiTransfer done(world, "meeting other hosts", 1, DType::i64);
    world->check(MPI_Iallgather(&here, 1, MPI_CHAR, are_here.data(), 1, MPI_CHAR, world->comm, done.add()),
                 "MPI_Iallgather");
    if (invites && invitation.port != 0)
        while (!done.test()) reception->serve();
    else
        done.wait();
    if (!invites && !to_first) return nullptr;
    std::vector<TcpSocket> star;
    if (invites) {
        star = reception->release();
        for (std::size_t rank = 0; rank < star.size(); ++rank)
            if (are_here[rank] == 0) star[rank].close();
    } else {
        star.push_back(std::move(to_first));
    }
    return std::make_shared<PeerWatch>(world->rank, hosts, std::move(star));
}

}  // namespace tutti
