#include "tutti/comm/session.hpp"

#include <fmt/format.h>

#include "rendezvous_session.hpp"
#include "tutti/comm/mpi_session.hpp"

namespace tutti {

std::string StartPatience::timeout_name() const {
    const std::string name = "distributed.timeout";
    return wished > 0 ? fmt::format("{} ({:g} here, at least {:g} at the start)", name, wished, peers) : name;
}

std::unique_ptr<Session> start_session(const Environment& environment, const StartPatience& patience,
                                       const Session::Notice& report) {
    if (const auto mismatch = mismatch_before_start(environment)) throw LaunchMismatch(*mismatch);
    if (bootstrap_of(environment) == Bootstrap::rendezvous)
        return std::make_unique<RendezvousSession>(environment, patience, report);
    return std::make_unique<MpiSession>(patience);
}

}  // namespace tutti
