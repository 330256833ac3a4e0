#pragma once
// The network as this host sees it.

#include <string>
#include <vector>

namespace tutti {

/// Names of this host's network interfaces, up or not, in the system's order.
std::vector<std::string> network_interfaces();

}  // namespace tutti
