#include "tcp_socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "tutti/base/signals_blocked.hpp"

namespace tutti {
namespace {

/// Nobody who waits stops looking at the clock for longer.
constexpr std::chrono::milliseconds between_looks(200);

/// Rounded up: who waits for no longer has not reached the deadline.
std::chrono::milliseconds until_next_look(const Deadline& deadline) {
    const double left = std::ceil(deadline.left() * 1e3);
    return std::chrono::milliseconds(static_cast<int>(std::clamp(left, 0.0, double{between_looks.count()})));
}

/// False when the deadline has passed first, and not before: callers tell a lost peer from a silent one by
/// it.
bool wait_for(int descriptor, short events, const Deadline& deadline) {
    for (;;) {
        pollfd entry{descriptor, events, 0};
        const int ready = ::poll(&entry, 1, static_cast<int>(until_next_look(deadline).count()));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
        if (ready == 0 && deadline.passed()) return false;
    }
}

bool would_block() {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

std::string numeric(const sockaddr_storage& address, socklen_t length) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
        return {};
    std::string name = text.data();
    name = name.substr(0, name.find('%'));
    return name.starts_with("::ffff:") ? name.substr(7) : name;
}

struct FreeAddresses {
    void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses resolve(const std::string& host, int port, int& error, int flags = 0) {
    addrinfo hints{};
    hints.ai_flags = flags;
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
    return Addresses(error == 0 ? list : nullptr);
}

struct Answer {
    Addresses addresses;
    int error = 0;
};

/// Nothing where no answer came in time.
std::optional<Answer> resolve_by(const std::string& host, int port, const Deadline& deadline) {
    Answer numeric;
    numeric.addresses = resolve(host, port, numeric.error, AI_NUMERICHOST);
    if (numeric.addresses) return numeric;
    // A resolver whose servers are silent may take a minute, and cannot be interrupted: it is left behind.
    std::promise<Answer> asked;
    std::future<Answer> answer = asked.get_future();
    {
        const SignalsBlocked blocked;  // they are for the thread that waits
        std::thread([host, port, asked = std::move(asked)]() mutable {
            Answer found;
            found.addresses = resolve(host, port, found.error);
            asked.set_value(std::move(found));
        }).detach();
    }
    while (answer.wait_for(until_next_look(deadline)) != std::future_status::ready)
        if (deadline.passed()) return {};
    return answer.get();
}

constexpr int socket_type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

bool has_connected(int descriptor) {
    int problem = 0;
    socklen_t length = sizeof problem;
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &problem, &length) == 0 && problem == 0;
}

bool connected(int descriptor, const addrinfo& to, const Deadline& deadline) {
    if (::connect(descriptor, to.ai_addr, to.ai_addrlen) == 0) return true;
    return errno == EINPROGRESS && wait_for(descriptor, POLLOUT, deadline) && has_connected(descriptor);
}

void send_small_packets_at_once(int descriptor) {
    const int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

template <class Address>
TcpSocket listen_at(const Address& address, int family) {
    TcpSocket result(::socket(family, socket_type, 0));
    if (!result) return {};
    const int on = 1, off = 0;
    setsockopt(result.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6) setsockopt(result.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (::bind(result.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::listen(result.descriptor(), SOMAXCONN) == 0)
        return result;
    const int reason = errno;
    result.close();
    errno = reason;
    return {};
}

TcpSocket listen_v4(int port, bool loopback_only) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
    return listen_at(address, AF_INET);
}

bool has_ipv6() {
    const TcpSocket probe(::socket(AF_INET6, socket_type, 0));
    return static_cast<bool>(probe);
}

}  // namespace

TcpSocket::TcpSocket(TcpSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

TcpSocket& TcpSocket::operator=(TcpSocket&& other) noexcept {
    if (this != &other) {
        close();
        descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
}

TcpSocket::~TcpSocket() {
    close();
}

void TcpSocket::close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

bool TcpSocket::send(std::span<const std::byte> bytes, const Deadline& deadline) const {
    while (!bytes.empty()) {
        const auto sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent > 0)
            bytes = bytes.subspan(static_cast<std::size_t>(sent));
        else if (!would_block() || !wait_for(descriptor_, POLLOUT, deadline))
            return false;
    }
    return true;
}

bool TcpSocket::send_at_once(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
        const auto sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent > 0)
            bytes = bytes.subspan(static_cast<std::size_t>(sent));
        else if (errno != EINTR)
            return false;
    }
    return true;
}

bool TcpSocket::receive(std::span<std::byte> bytes, const Deadline& deadline) const {
    while (!bytes.empty()) {
        const auto came = receive_some(bytes);
        if (!came) return false;
        bytes = bytes.subspan(*came);
        if (*came == 0 && !wait_for(descriptor_, POLLIN, deadline)) return false;
    }
    return true;
}

std::optional<std::size_t> TcpSocket::receive_some(std::span<std::byte> bytes) const {
    const auto came = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (came > 0) return static_cast<std::size_t>(came);
    if (came < 0 && would_block()) return 0;
    return {};
}

std::string TcpSocket::local_address() const {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
    return numeric(address, length);
}

std::string TcpSocket::peer_address() const {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
    return numeric(address, length);
}

int TcpSocket::local_port() const {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
    // The port is in the same place of both kinds.
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

TcpSocket begin_connect(const std::string& address, int port) {
    int error = 0;
    const Addresses to = resolve(address, port, error, AI_NUMERICHOST);
    if (!to) return {};
    TcpSocket socket(::socket(to->ai_family, socket_type, to->ai_protocol));
    if (!socket) return {};
    send_small_packets_at_once(socket.descriptor());
    if (::connect(socket.descriptor(), to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS) return {};
    return socket;
}

bool is_connected(const TcpSocket& socket) {
    return has_connected(socket.descriptor());
}

TcpSocket connect_tcp(const std::string& host, int port, const Deadline& deadline) {
    const std::optional<Answer> answer = resolve_by(host, port, deadline);
    if (!answer) return {};
    int left = 0;
    for (const addrinfo* one = answer->addresses.get(); one != nullptr; one = one->ai_next) ++left;
    for (const addrinfo* one = answer->addresses.get(); one != nullptr; one = one->ai_next, --left) {
        // Of those that answer nothing, each may take its part of the time.
        const Deadline its = deadline.or_within(std::max(deadline.left(), 0.0) / left);
        TcpSocket result(::socket(one->ai_family, socket_type, one->ai_protocol));
        if (!result || !connected(result.descriptor(), *one, its)) continue;
        send_small_packets_at_once(result.descriptor());
        return result;
    }
    return {};
}

TcpSocket listen_tcp(int port, bool loopback_only) {
    if (loopback_only || !has_ipv6()) return listen_v4(port, loopback_only);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<std::uint16_t>(port));
    address.sin6_addr = in6addr_any;
    if (TcpSocket both = listen_at(address, AF_INET6)) return both;
    // Taken, perhaps for IPv6 only: peers could reach the other listener instead of this one.
    if (errno == EADDRINUSE) return {};
    return listen_v4(port, false);
}

TcpSocket accept_tcp(const TcpSocket& listener) {
    TcpSocket result(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (result) send_small_packets_at_once(result.descriptor());
    return result;
}

bool is_loopback(const std::string& address) {
    return address.starts_with("127.") || address == "::1";
}

std::string resolve_problem(const std::string& host, const Deadline& deadline) {
    for (;;) {
        const std::optional<Answer> answer = resolve_by(host, 0, deadline);
        if (!answer) return "no answer from the resolver";
        if (answer->error == 0) return {};
        if (deadline.passed()) return gai_strerror(answer->error);
        std::this_thread::sleep_for(until_next_look(deadline.or_within(0.1)));
    }
}

}  // namespace tutti
