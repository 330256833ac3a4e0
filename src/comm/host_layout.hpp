#pragma once
// Private to comm: which ranks share a host, and communicators within hosts and between them.

#include <mpi.h>

#include <memory>
#include <vector>

namespace tutti {

struct Handle;

/// The same number of ranks on each of several hosts. Lives as long as MPI, as do its communicators, which
/// are there where a host has several ranks.
struct HostLayout {
    int hosts = 1;
    int local_size = 1;
    /// By host, and there by place: ranks in ascending order. Hosts are in the order of their first ranks.
    std::vector<int> ranks;
    MPI_Comm local = MPI_COMM_NULL;  ///< this rank's host; its rank is the place
    MPI_Comm across =
        MPI_COMM_NULL;  ///< the ranks in the same place of all hosts; its rank is the host's number

    int rank(int host, int place) const { return ranks[static_cast<std::size_t>(host * local_size + place)]; }
    /// Whether the ranks of each host follow one another.
    bool in_blocks() const;
};

/// host: any number that the ranks of a host, and no others, have in common. Null, on every rank, where hosts
/// have different numbers of ranks, or where there is one host. Collective, and without a time-out
/// where it makes communicators (MPI_Comm_split): for the start, when all ranks are known to be there.
std::shared_ptr<const HostLayout> host_layout(const std::shared_ptr<Handle>& world, int host);

}  // namespace tutti
