#pragma once
// Collectives without MPI: gloo over TCP. Optional; Meson finds it.

#include <memory>
#include <string>

#include "tutti/comm/session.hpp"

namespace tutti {

/// Why this program has no gloo; empty when it has.
std::string gloo_absence();

/// The ranks of `control`, connected anew by gloo; host memory. address: a name or number by which the other
/// ranks reach this one; the network interface GLOO_SOCKET_IFNAME comes before it. Otherwise as
/// Session::world. Collective. Throws LaunchError (no gloo, no such interface) and PeerError.
std::unique_ptr<Communicator> make_gloo_communicator(Communicator& control, const std::string& address,
                                                     double timeout, Session::Notice notice = {});

}  // namespace tutti
