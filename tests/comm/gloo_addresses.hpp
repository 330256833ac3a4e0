#pragma once
// What a rank tells the others before it connects over gloo, as a stranger reads it.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::test {

/// The ports at which a rank listens, one for each of `peers` others. text: its host and, for each of them,
/// an address of gloo's.
inline std::vector<sockaddr_in> gloo_ports(const std::string& text, std::size_t peers) {
    const std::size_t first = text.find('\0') + 1, bytes = (text.size() - first) / peers;
    std::vector<sockaddr_in> ports(peers);
    for (std::size_t peer = 0; peer < peers; ++peer) {
        std::memcpy(&ports[peer], text.data() + first + peer * bytes, sizeof(sockaddr_in));
        if (ports[peer].sin_family != AF_INET) throw std::runtime_error("gloo's address begins otherwise");
    }
    return ports;
}

/// A connection, as a descriptor; -1 where nobody listens.
inline int connect_to(const sockaddr_in& to) {
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return descriptor;
    close(descriptor);
    return -1;
}

}  // namespace tutti::test
