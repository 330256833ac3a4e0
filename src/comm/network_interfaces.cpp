#include "network_interfaces.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>

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

namespace {

bool is_of_loopback(const sockaddr* address) {
    if (address->sa_family == AF_INET) {
        in_addr number{};
        std::memcpy(&number, reinterpret_cast<const char*>(address) + offsetof(sockaddr_in, sin_addr),
                    sizeof(number));
        return (ntohl(number.s_addr) >> 24U) == IN_LOOPBACKNET;
    }
    if (address->sa_family != AF_INET6) return false;
    in6_addr number{};
    std::memcpy(&number, reinterpret_cast<const char*>(address) + offsetof(sockaddr_in6, sin6_addr),
                sizeof(number));
    return IN6_IS_ADDR_LOOPBACK(&number);
}

/// fe80::…, which means another host on each link.
bool is_of_link(const sockaddr* address) {
    if (address->sa_family != AF_INET6) return false;
    in6_addr number{};
    std::memcpy(&number, reinterpret_cast<const char*>(address) + offsetof(sockaddr_in6, sin6_addr),
                sizeof(number));
    return IN6_IS_ADDR_LINKLOCAL(&number);
}

/// Whether all addresses of the name, of which there are some, are of the loopback interface.
bool is_loopback_name(const std::string& name) {
    addrinfo* found = nullptr;
    if (getaddrinfo(name.c_str(), nullptr, nullptr, &found) != 0 || found == nullptr) return false;
    bool all = true;
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
        all = all && is_of_loopback(one->ai_addr);
    freeaddrinfo(found);
    return all;
}

}  // namespace

std::string reachable_address(const std::string& name) {
    ifaddrs* interfaces = nullptr;
    if (!is_loopback_name(name) || getifaddrs(&interfaces) != 0) return name;
    std::string address = name;
    for (const ifaddrs* one = interfaces; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET ||
            (one->ifa_flags & IFF_UP) == 0 || is_of_loopback(one->ifa_addr))
            continue;
        std::array<char, INET_ADDRSTRLEN> text{};
        if (getnameinfo(one->ifa_addr, sizeof(sockaddr_in), text.data(), text.size(), nullptr, 0,
                        NI_NUMERICHOST) != 0)
            continue;
        address = text.data();
        break;
    }
    freeifaddrs(interfaces);
    return address;
}

std::vector<std::string> own_addresses() {
    std::vector<std::string> found;
    ifaddrs* interfaces = nullptr;
    if (getifaddrs(&interfaces) != 0) return found;
    for (const int family : {AF_INET, AF_INET6})
        for (const ifaddrs* one = interfaces; one != nullptr; one = one->ifa_next) {
            if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family ||
                (one->ifa_flags & IFF_UP) == 0 || is_of_loopback(one->ifa_addr) || is_of_link(one->ifa_addr))
                continue;
            const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
            std::array<char, INET6_ADDRSTRLEN> text{};
            if (getnameinfo(one->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0)
                found.emplace_back(text.data());
        }
    freeifaddrs(interfaces);
    return found;
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
