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
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace tutti {
namespace {

/// Rounded up: who waits for no longer has not reached the deadline.
int milliseconds_until(Deadline deadline) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

/// False when the deadline has passed first, and not before: callers tell a lost peer from a silent one by
/// it.
bool wait_for(int descriptor, short events, Deadline deadline) {
    for (;;) {
        pollfd entry{descriptor, events, 0};
        const int ready = ::poll(&entry, 1, milliseconds_until(deadline));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
        if (ready == 0 && std::chrono::steady_clock::now() >= deadline) return false;
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

constexpr int socket_type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

bool has_connected(int descriptor) {
    int problem = 0;
    socklen_t length = sizeof problem;
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &problem, &length) == 0 && problem == 0;
}

bool connected(int descriptor, const addrinfo& to, Deadline deadline) {
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

bool TcpSocket::send(std::span<const std::byte> bytes, Deadline deadline) const {
    while (!bytes.empty()) {
        const auto sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent > 0)
            bytes = bytes.subspan(static_cast<std::size_t>(sent));
        else if (!would_block() || !wait_for(descriptor_, POLLOUT, deadline))
            return false;
    }
    return true;
}

bool TcpSocket::receive(std::span<std::byte> bytes, Deadline deadline) const {
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

TcpSocket connect_tcp(const std::string& host, int port, Deadline deadline) {
    int error = 0;
    const Addresses addresses = resolve(host, port, error);
    int left = 0;
    for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) ++left;
    for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next, --left) {
        // Of those that answer nothing, each may take its part of the time.
        const auto now = std::chrono::steady_clock::now();
        const Deadline its = std::min(deadline, now + std::max(deadline - now, Deadline::duration{}) / left);
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

std::string resolve_problem(const std::string& host, Deadline deadline) {
    std::string problem;
    do {
        // A resolver whose servers are silent may take a minute, and cannot be interrupted: it is left
        // behind.
        auto answer = std::make_shared<std::promise<int>>();
        std::future<int> error = answer->get_future();
        std::thread([answer, host] {
            int found = 0;
            resolve(host, 0, found);
            answer->set_value(found);
        }).detach();
        if (error.wait_until(deadline) != std::future_status::ready) return "no answer from the resolver";
        const int found = error.get();
        if (found == 0) return {};
        problem = gai_strerror(found);
        std::this_thread::sleep_until(
            std::min(deadline, std::chrono::steady_clock::now() + std::chrono::milliseconds(100)));
    } while (std::chrono::steady_clock::now() < deadline);
    return problem;
}

}  // namespace tutti
