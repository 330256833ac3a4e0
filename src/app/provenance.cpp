#include "provenance.hpp"

#include <fmt/chrono.h>
#include <hdf5.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tutti/base/json_text.hpp"
#include "tutti/comm/mpi_session.hpp"
#include "version.h"

namespace tutti {
std::string hdf5_version() {
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    return fmt::format("{}.{}.{}", major, minor, release);
}

std::string provenance(const Device& device, const std::vector<RankPlace>& places,
                       const Environment& environment, const std::vector<std::string>& overrides) {
    nlohmann::ordered_json document;
    document["version"] = TUTTI_VERSION;
    document["commit"] = TUTTI_COMMIT;
    document["time"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
    document["libraries"] = {{"mpi", MpiSession::library_version()}, {"hdf5", hdf5_version()}};
    std::vector<std::string> hosts;
    for (const RankPlace& place : places)
        if (std::ranges::find(hosts, place.host) == hosts.end()) hosts.push_back(place.host);
    document["hosts"] = hosts;
    document["launcher"] = to_string(read_launch(environment).launcher);
    if (const auto job = environment.find("SLURM_JOB_ID"); job != environment.end())
        document["slurm_job"] = job->second;
    document["device"] = device.description();
    document["world_size"] = places.size();
    for (std::size_t rank = 0; rank < places.size(); ++rank)
        document["ranks"].push_back({{"rank", rank},
                                     {"host", places[rank].host},
                                     {"local_rank", places[rank].local_rank},
                                     {"cores", places[rank].cores},
                                     {"threads", places[rank].threads},
                                     {"visible_gpus", places[rank].visible_gpus}});
    std::error_code none;
    document["folder"] = std::filesystem::current_path(none).string();
    document["overrides"] = overrides;
    // File names are bytes: what is no UTF-8 in them is shown, not refused.
    return json_text(document, 2) + "\n";
}

}  // namespace tutti
