#pragma once
// Private to comm: a connection of gloo's between every two ranks, which carries what that rank sends.

#include <gloo/context.h>
#include <gloo/transport/device.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "gloo_mesh.hpp"
#include "gloo_presence.hpp"
#include "tutti/base/error.hpp"

namespace tutti {

struct GlooConnections {
    std::shared_ptr<gloo::Context> context;
    std::shared_ptr<const std::vector<std::string>> hosts;  ///< by rank
    std::shared_ptr<GlooPresence> presence;
};

/// Collective; when it has returned on one rank, no other makes connections any more. gloo listens at a port
/// for each peer, takes the first connection there for that peer's, and keeps what came over it where it then
/// connects itself. Whoever tries the ports of a host at that moment, such as ranks of another job that look
/// for their rank 0, would leave a connection that is deaf without an error, or take the peer's place. So
/// each rank greets each other over the new connection; where one fails or carries something else, all ranks
/// connect anew, a few times. Throws as connect_gloo.
GlooConnections connect_all(const std::shared_ptr<gloo::transport::Device>& device, const GlooPlace& place,
                            const Exchange& exchange, double timeout, const std::shared_ptr<GlooJob>& job);

/// What is said where this rank has no connection to "rank 1 on there", for gloo's or another reason.
PeerError not_connected(const GlooPlace& place, const std::string& to, const std::exception& error);

}  // namespace tutti
