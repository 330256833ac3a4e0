#include "network_interfaces.hpp"

#include <net/if.h>

#include <algorithm>
#include <cstdlib>

#include "tutti/base/error.hpp"
#include "tutti/comm/network.hpp"

namespace tutti {

std::vector<std::string> network_interfaces() {
    std::vector<std::string> names;
    struct if_nameindex* const all = if_nameindex();
    for (const auto* one = all; one != nullptr && one->if_name != nullptr; ++one)
        names.emplace_back(one->if_name);
    if (all != nullptr) if_freenameindex(all);
    return names;
}

std::string gloo_interface() {
    const char* const text = std::getenv("GLOO_SOCKET_IFNAME");
    return text != nullptr ? text : "";
}

void require_interface(const std::string& interface, const std::string& variable, const std::string& host) {
    const auto interfaces = network_interfaces();
    if (std::find(interfaces.begin(), interfaces.end(), interface) != interfaces.end()) return;
    std::string names;
    for (const std::string& name : interfaces) names += (names.empty() ? "" : ", ") + name;
    throw LaunchError(variable + " is " + interface + ", which " + host + " does not have",
                      "choose one of: " + names);
}

}  // namespace tutti
