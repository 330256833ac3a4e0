#pragma once
// Private to comm: which ranks share a host, and communicators within hosts and between them.

#include <mpi.h>

#include <memory>

#include "equal_hosts.hpp"

namespace tutti {

struct Handle;

/// Two hosts at least. Lives as long as MPI, as do its communicators, which are there where a host has
/// several ranks.
struct HostLayout : EqualHosts {
    MPI_Comm local = MPI_COMM_NULL;  ///< this rank's host; its rank is the place
    MPI_Comm across =
        MPI_COMM_NULL;  ///< the ranks in the same place of all hosts; its rank is the host's number
};

/// host: this rank's number for equal_hosts. Null, on every rank, where that gives nothing. Collective, and
/// without a time-out where it makes communicators (MPI_Comm_split): for the start, when all ranks are known
/// to be there.
std::shared_ptr<const HostLayout> host_layout(const std::shared_ptr<Handle>& world, int host);

}  // namespace tutti
