#include "host_layout.hpp"

#include <utility>
#include <vector>

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

std::shared_ptr<const HostLayout> host_layout(const std::shared_ptr<Handle>& world, int host) {
    std::vector<int> host_of_rank(static_cast<std::size_t>(world->size));
    MpiTransfer gather(world, "comparing hosts", 1, DType::i64);
    world->check(
        MPI_Iallgather(&host, 1, MPI_INT, host_of_rank.data(), 1, MPI_INT, world->comm, gather.add()),
        "MPI_Iallgather");
    gather.wait();

    auto equal = equal_hosts(host_of_rank);
    if (!equal) return nullptr;
    auto layout = std::make_shared<HostLayout>();
    static_cast<EqualHosts&>(*layout) = std::move(*equal);
    if (layout->local_size == 1) return layout;
    const int number = layout->host_of(world->rank), place = layout->place_of(world->rank);
    layout->local = part_of(*world, number, world->rank);
    layout->across = part_of(*world, place, number);
    return layout;
}

}  // namespace tutti
