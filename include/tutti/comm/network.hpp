#pragma once
// The network as this host sees it.

#include <string>
#include <vector>

namespace tutti {

/// Names of this host's network interfaces, up or not, in the system's order.
std::vector<std::string> network_interfaces();

/// How a TCP connection finds its rate (tcp(7), TCP_CONGESTION): sets the kernel's algorithm `name` for every
/// TCP socket that this process has now, whoever opened it (MPI, gloo, the launcher's client), and returns
/// their number. A listener hands it on to the connections that it accepts later. What this host sends
/// follows it, not what it receives. Throws LaunchError where the kernel refuses the name, with those it
/// allows here.
std::size_t set_tcp_congestion(const std::string& name);

}  // namespace tutti
