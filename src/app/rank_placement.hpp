#pragma once
// Where the ranks are: host, cores, threads.

#include <string>
#include <vector>

#include "tutti/comm/mpi_session.hpp"

namespace tutti {

struct RankPlace {
    std::string host;
    int local_rank = 0;
    std::vector<int> cores;
    int threads = 1;
    std::string visible_gpus;  ///< CUDA_VISIBLE_DEVICES of the rank: what the launcher gave it
};

/// Of every rank, by rank. Collective. Threads follow the bound cores (threads_for_rank).
std::vector<RankPlace> exchange_places(Communicator& world, const MpiSession& session);

}  // namespace tutti
