#pragma once
// Private to comm: TCP with deadlines.

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "deadline.hpp"

namespace tutti {

/// A connection or a listener; closed at the end of its life. Sockets never raise SIGPIPE.
class TcpSocket {
  public:
    TcpSocket() = default;
    explicit TcpSocket(int descriptor) : descriptor_(descriptor) {}
    TcpSocket(TcpSocket&& other) noexcept;
    TcpSocket& operator=(TcpSocket&& other) noexcept;
    ~TcpSocket();

    int descriptor() const { return descriptor_; }
    explicit operator bool() const { return descriptor_ >= 0; }
    void close();

    /// False when the deadline passes first or the peer closes.
    bool send(std::span<const std::byte> bytes, const Deadline& deadline) const;
    bool receive(std::span<std::byte> bytes, const Deadline& deadline) const;
    /// False when not all of it fits into the connection's buffer now, or the peer has closed.
    bool send_at_once(std::span<const std::byte> bytes) const;
    /// What has come already, at most bytes.size(): the number, 0 for nothing yet, nothing when the peer has
    /// closed.
    std::optional<std::size_t> receive_some(std::span<std::byte> bytes) const;

    /// Numeric addresses, without the scope of IPv6; IPv4 as IPv4 also on an IPv6 socket.
    std::string local_address() const;
    std::string peer_address() const;
    /// 0 where there is none.
    int local_port() const;

  private:
    int descriptor_ = -1;
};

/// The first address of `host` that answers on `port`, or an empty socket.
TcpSocket connect_tcp(const std::string& host, int port, const Deadline& deadline);

/// Begins to connect to a numeric address; an empty socket where that fails at once. A poll for POLLOUT tells
/// when it is decided, and is_connected how.
TcpSocket begin_connect(const std::string& address, int port);
bool is_connected(const TcpSocket& socket);

/// Listens on every address of this host, or on loopback only; an empty socket when the port is taken. Port
/// 0: any free one.
TcpSocket listen_tcp(int port, bool loopback_only);
/// The next connection; an empty socket when none is there, or it cannot be taken (errno).
TcpSocket accept_tcp(const TcpSocket& listener);

/// 127.x.x.x or ::1 (a number, not a name).
bool is_loopback(const std::string& address);
/// Why `host` cannot be resolved, or nothing. Asks again until `deadline`, and waits no longer than that for
/// an answer.
std::string resolve_problem(const std::string& host, const Deadline& deadline);

}  // namespace tutti
