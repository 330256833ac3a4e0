#include "rank_placement.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tutti/base/json_text.hpp"
#include "tutti/comm/launch.hpp"

namespace tutti {

std::vector<RankPlace> exchange_places(Communicator& world, const Session& session) {
    const char* const gpus = std::getenv("CUDA_VISIBLE_DEVICES");
    const nlohmann::json mine = {{"host", session.host()},
                                 {"local_rank", session.local_rank()},
                                 {"cores", bound_cores()},
                                 {"visible_gpus", gpus ? gpus : ""}};
    std::vector<RankPlace> places;
    for (const std::string& text : all_gather_text(world, json_text(mine))) {
        const auto row = nlohmann::json::parse(text);
        places.push_back({row.at("host"), row.at("local_rank"), row.at("cores"), 1, row.at("visible_gpus")});
    }
    for (std::size_t rank = 0; rank < places.size(); ++rank) {
        std::vector<std::vector<int>> neighbours;
        std::size_t own = 0;
        for (std::size_t other = 0; other < places.size(); ++other) {
            if (places[other].host != places[rank].host) continue;
            if (other == rank) own = neighbours.size();
            neighbours.push_back(places[other].cores);
        }
        places[rank].threads = threads_for_rank(neighbours, own);
    }
    return places;
}

std::int64_t ranks_beside(std::span<const RankPlace> places, std::size_t rank) {
    return std::ranges::count(places, places[rank].host, &RankPlace::host);
}

}  // namespace tutti
