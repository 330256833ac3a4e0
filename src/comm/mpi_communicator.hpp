#pragma once
// Private to comm: MPI's types stay out of include/.

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// Throws PeerError with the call, MPI's own words and the rank, unless code is MPI_SUCCESS.
void check_mpi(int code, const char* call, int rank);

/// MPI_Get_processor_name; the empty string when MPI does not know.
std::string mpi_host();

struct Handle;

/// The ranks of `comm`, which stays the caller's and must return errors (MPI_ERRORS_RETURN). timeout in
/// seconds, 0 for ever. largest_piece: elements that one MPI call may carry (its counts are ints); tests make
/// it small. notice: see MpiSession::world.
std::shared_ptr<Handle> make_handle(MPI_Comm comm, double timeout,
                                    std::int64_t largest_piece = std::numeric_limits<int>::max(),
                                    std::function<void(const std::string&)> notice = {});

std::unique_ptr<Communicator> make_mpi_communicator(std::shared_ptr<const Handle> handle);
/// The same of a handle as make_handle gives it: all-reduces are MPI's.
std::unique_ptr<Communicator> make_mpi_communicator(
    MPI_Comm comm, double timeout, std::int64_t largest_piece = std::numeric_limits<int>::max(),
    std::function<void(const std::string&)> notice = {});

}  // namespace tutti
