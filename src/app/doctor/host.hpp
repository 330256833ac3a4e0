#pragma once
// What a rank finds out about itself and its host.

#include "../rank_placement.hpp"
#include "facts.hpp"
#include "gpu.hpp"
#include "tutti/comm/launch.hpp"

namespace tutti::doctor {

/// Of this rank; clock_ahead is left 0. taken: the GPU that training takes; without one, what the driver
/// shows to this rank (gpu_of_rank) is told. Takes milliseconds without a GPU.
RankFacts own_facts(int rank, const RankPlace& place, const Environment& environment, const Gpu& taken);

/// Seconds by which this rank's clock is ahead of rank 0's, as well as a few barriers tell. Collective.
double clock_ahead(Communicator& world);

}  // namespace tutti::doctor
