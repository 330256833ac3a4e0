#pragma once
// Private to comm: memory that the ranks of a communicator share.

#include <memory>

#include "mpi_transfer.hpp"

namespace tutti {

/// An all-reduce through shared memory when all ranks of `handle` are on one host and can map each other's
/// memory; otherwise, on every rank, null. Collective; waits as every transfer does. Adds the lane to
/// handle->lanes. No file is left behind by any end of the processes.
std::shared_ptr<AllReduceLane> make_shared_lane(const std::shared_ptr<const Handle>& handle);

}  // namespace tutti
