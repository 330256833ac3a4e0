// Which algorithm paces this process's TCP connections.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "tutti/base/error.hpp"
#include "tutti/base/host_name.hpp"
#include "tutti/comm/network.hpp"

namespace tutti {
namespace {

bool is_tcp(int descriptor) {
    int protocol = 0;
    socklen_t size = sizeof(protocol);
    return getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP;
}

/// MPI does not tell which sockets are its own, but the process knows its descriptors.
std::vector<int> tcp_sockets() {
    std::vector<int> sockets;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", none)) {
        const std::string name = entry.path().filename();
        int descriptor = -1;
        if (std::from_chars(name.data(), name.data() + name.size(), descriptor).ec == std::errc{} &&
            is_tcp(descriptor))
            sockets.push_back(descriptor);
    }
    return sockets;
}

std::string allowed_algorithms() {
    std::ifstream file("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    std::string line;
    std::getline(file, line);
    return line;
}

}  // namespace

std::size_t set_tcp_congestion(const std::string& name) {
    const std::vector<int> sockets = tcp_sockets();
    for (const int descriptor : sockets)
        if (setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                       static_cast<socklen_t>(name.size())) != 0)
            throw LaunchError("TCP's congestion control '" + name + "' is refused on " + host_name() + ": " +
                                  std::generic_category().message(errno),
                              "choose one that this system allows: " + allowed_algorithms());
    return sockets.size();
}

}  // namespace tutti
