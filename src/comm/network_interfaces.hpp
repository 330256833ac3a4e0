#pragma once
// Private to comm: the network as this host sees it.

#include <string>
#include <vector>

namespace tutti {

/// Numeric addresses at which other hosts may reach this one, IPv4 before IPv6: of all interfaces that are
/// up, without loopback and addresses that hold on one link alone.
std::vector<std::string> own_addresses();
/// $GLOO_SOCKET_IFNAME; the empty string when it is not set.
std::string gloo_interface();
/// Throws LaunchError, with the interfaces that there are, when `interface` is none of this host's. variable:
/// who asked for it.
void require_interface(const std::string& interface, const std::string& variable, const std::string& host);

}  // namespace tutti
