#pragma once
// The values of all ranks, on every rank.

#include <vector>

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// Of any number on each rank, one rank's behind another's. Collective, and the same on every rank, which has
/// 8 B per value of all ranks afterwards, and up to twice that while they arrive where all have as many.
std::vector<double> gather_values(Communicator& communicator, std::vector<double> mine);

}  // namespace tutti
