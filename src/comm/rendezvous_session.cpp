#include "rendezvous_session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "connect_watch.hpp"
#include "network_interfaces.hpp"
#include "rendezvous.hpp"
#include "tutti/base/host_name.hpp"
#include "tutti/base/steady_seconds.hpp"
#include "tutti/comm/gloo.hpp"
#include "waiting.hpp"

namespace tutti {

RendezvousSession::RendezvousSession(const Environment& environment, const StartPatience& patience,
                                     const Notice& report)
    : host_(host_name()) {
    const LaunchFacts facts = read_launch(environment);
    rank_ = facts.rank.value_or(0);
    size_ = facts.world_size.value_or(1);
    if (size_ == 1) return;
    if (!gloo_absence().empty())
        throw LaunchMismatch(
            to_string(facts.launcher) + " brings no MPI, and " + gloo_absence(),
            "start it with mpirun or srun --mpi=pmix, or install libgloo-dev and build again");
    // Known without waiting for anybody.
    if (const std::string interface = gloo_interface(); !interface.empty())
        require_interface(interface, "GLOO_SOCKET_IFNAME", host_);

    Rendezvous rendezvous(rank_, size_, meeting_point(environment).value(), patience.peers, report,
                          steady_seconds, patience.timeout_name());
    const std::vector<std::string> hosts = rendezvous.exchange(host_);
    count_neighbours(hosts);
    const std::string address = rendezvous.address();
    // gloo's addresses travel before the watch may read from the same connections.
    const Exchange exchange = [&](const std::string& mine) { return rendezvous.exchange(mine); };
    std::optional<ConnectWatch> connecting;
    connecting.emplace(name_of_rank(rank_, hosts), [&] {
        std::vector<std::string> lost;
        for (const int rank : rendezvous.closed()) lost.push_back(name_of_rank(rank, hosts));
        return lost.empty() ? "" : fmt::format("{} closed the connection", fmt::join(lost, ", "));
    });
    mesh_ = connect_gloo({rank_, size_, host_, address, gloo_interface()}, exchange, patience.peers, [&] {
        connecting.reset();
        return PeerWatch(rank_, hosts, rendezvous.release());
    });
}

void RendezvousSession::count_neighbours(const std::vector<std::string>& hosts) {
    local_size_ = 0;
    for (int rank = 0; rank < size_; ++rank) {
        if (hosts[static_cast<std::size_t>(rank)] != host_) continue;
        if (rank == rank_) local_rank_ = local_size_;
        ++local_size_;
    }
}

std::unique_ptr<Communicator> RendezvousSession::world(double timeout, Notice notice) {
    if (!mesh_) return make_single_communicator();
    return make_gloo_communicator(mesh_, timeout, std::move(notice));
}

}  // namespace tutti
