#pragma once
// Private to comm: connections of all ranks by gloo, however they learn of each other's addresses.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "peer_watch.hpp"
#include "tutti/comm/session.hpp"

namespace tutti {

class GlooMesh;

/// Where this rank stands in the mesh, and by which name or number the others reach it.
struct GlooPlace {
    int rank = 0;
    int size = 1;
    std::string host;     ///< for messages
    std::string address;  ///< not used when interface is set
    std::string interface;
};

/// Hands over this rank's text and returns every rank's, by rank. Collective.
using Exchange = std::function<std::vector<std::string>(const std::string&)>;

/// Collective. Throws LaunchError (no gloo in this program, no such interface or address) and PeerError (not
/// connected within `timeout` seconds, in which time while suspended does not count; 0: for ever). watch:
/// made when nothing is exchanged any more; tells of ranks that have ended, which gloo does not while it
/// waits to send to one. Absent: nothing tells.
std::shared_ptr<GlooMesh> connect_gloo(const GlooPlace& place, const Exchange& exchange, double timeout,
                                       const std::function<PeerWatch()>& watch);

/// A communicator on the mesh; all that are made on one share one order of calls. See Session::world.
std::unique_ptr<Communicator> make_gloo_communicator(std::shared_ptr<GlooMesh> mesh, double timeout,
                                                     Session::Notice notice);

}  // namespace tutti
