#pragma once
// For tests linked with mpi_main.cpp: all ranks run the same tests, rank 0 reports for all.

#include "tutti/comm/mpi_session.hpp"

namespace tutti::test {

/// The session of this process.
MpiSession& session();
/// Seconds within which peers surely come.
inline constexpr double ample_time = 30;

}  // namespace tutti::test
