#pragma once
// What made a run: for provenance.json.

#include <string>
#include <vector>

#include "rank_placement.hpp"
#include "tutti/comm/launch.hpp"
#include "tutti/device/device.hpp"

namespace tutti {

/// JSON: version, commit, time, libraries, launcher, device, ranks (host, cores, threads), the current
/// directory, overrides.
std::string provenance(const Device& device, const std::vector<RankPlace>& places,
                       const Environment& environment, const std::vector<std::string>& overrides);

/// Of the library in use: "1.10.8".
std::string hdf5_version();

}  // namespace tutti
