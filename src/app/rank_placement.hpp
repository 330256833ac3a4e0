#pragma once
// Where the ranks are: host, cores, threads.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/comm/session.hpp"

namespace tutti {

struct RankPlace {
    std::string host;
    int local_rank = 0;
    std::vector<int> cores;
    int threads = 1;
    std::string visible_gpus;  ///< CUDA_VISIBLE_DEVICES of the rank: what the launcher gave it
};

/// Of every rank, by rank. Collective. Threads follow the bound cores (threads_for_rank).
std::vector<RankPlace> exchange_places(Communicator& world, const Session& session);

/// How many ranks are on the host of `rank`, itself among them.
std::int64_t ranks_beside(std::span<const RankPlace> places, std::size_t rank);

}  // namespace tutti
