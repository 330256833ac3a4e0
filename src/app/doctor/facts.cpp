#include "facts.hpp"

#include <nlohmann/json.hpp>

#include "tutti/base/json_text.hpp"

namespace tutti::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, rank, host, local_rank, gpu_name, gpu_uuid, cores,
                                   launcher_cores, numa_nodes, threads, wanted_threads, wanted_by, libraries,
                                   hdf5_locking, shm_bytes, interfaces, interface_variables, clock_ahead)

std::string to_json(const RankFacts& facts) {
    return json_text(nlohmann::json(facts));
}
RankFacts rank_facts_from_json(const std::string& text) {
    return nlohmann::json::parse(text).get<RankFacts>();
}

}  // namespace tutti::doctor
