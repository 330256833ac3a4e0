#pragma once
// The network as this host sees it.

#include <string>
#include <vector>

namespace tutti {

/// Names of this host's network interfaces, up or not, in the system's order.
std::vector<std::string> network_interfaces();

/// What other hosts can reach this one by: `name`, its own; where that stands for the loopback interface
/// alone, as Debian's installer has it in /etc/hosts, the first other IPv4 address that is up, if there is
/// one.
std::string reachable_address(const std::string& name);

}  // namespace tutti
