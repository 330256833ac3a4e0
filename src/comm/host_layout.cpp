#include "host_layout.hpp"

#include <algorithm>
#include <map>

#include "mpi_transfer.hpp"

namespace tutti {
namespace {

MPI_Comm part_of(const Handle& world, int part, int order) {
    MPI_Comm comm = MPI_COMM_NULL;
    world.check(MPI_Comm_split(world.comm, part, order, &comm), "MPI_Comm_split");
    world.check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return comm;
}

}  // namespace

bool HostLayout::in_blocks() const {
    return std::ranges::is_sorted(ranks);
}

std::shared_ptr<const HostLayout> host_layout(const std::shared_ptr<Handle>& world, int host) {
    const auto size = static_cast<std::size_t>(world->size);
    std::vector<int> host_of_rank(size);
    MpiTransfer gather(world, "comparing hosts", 1, DType::i64);
    world->check(
        MPI_Iallgather(&host, 1, MPI_INT, host_of_rank.data(), 1, MPI_INT, world->comm, gather.add()),
        "MPI_Iallgather");
    gather.wait();

    std::vector<std::vector<int>> ranks_of_host;
    std::map<int, std::size_t> number_of_host;
    for (std::size_t rank = 0; rank < size; ++rank) {
        const auto [found, is_new] = number_of_host.try_emplace(host_of_rank[rank], ranks_of_host.size());
        if (is_new) ranks_of_host.emplace_back();
        ranks_of_host[found->second].push_back(static_cast<int>(rank));
    }
    const std::size_t each = ranks_of_host.front().size();
    if (ranks_of_host.size() < 2) return nullptr;
    for (const auto& ranks : ranks_of_host)
        if (ranks.size() != each) return nullptr;

    auto layout = std::make_shared<HostLayout>();
    layout->hosts = static_cast<int>(ranks_of_host.size());
    layout->local_size = static_cast<int>(each);
    for (const auto& ranks : ranks_of_host)
        layout->ranks.insert(layout->ranks.end(), ranks.begin(), ranks.end());
    if (each == 1) return layout;
    const auto place = std::ranges::find(layout->ranks, world->rank) - layout->ranks.begin();
    layout->local = part_of(*world, static_cast<int>(place) / layout->local_size, world->rank);
    layout->across = part_of(*world, static_cast<int>(place) % layout->local_size,
                             static_cast<int>(place) / layout->local_size);
    return layout;
}

}  // namespace tutti
