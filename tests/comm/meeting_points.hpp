#pragma once
// Where ranks of a test meet.

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>

#include "tcp_socket.hpp"
#include "tutti/comm/launch.hpp"

namespace tutti::test {

/// A port that was free a moment ago, with some after it that probably are, too.
inline int free_port() {
    const TcpSocket probe = listen_tcp(0, true);
    sockaddr_in address{};
    socklen_t length = sizeof address;
    getsockname(probe.descriptor(), reinterpret_cast<sockaddr*>(&address), &length);
    return std::min<int>(ntohs(address.sin_port), 65000);
}

inline MeetingPoint point_at(int port, const std::string& job = "job") {
    return {"127.0.0.1", port, job};
}

}  // namespace tutti::test
