#pragma once
// What a run took, at its end.

#include <cstdint>
#include <string>

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// {"type": "memory", "step": …, "peak_rss_bytes": [one per rank]}, on every rank. Collective.
std::string memory_row(Communicator& communicator, std::int64_t step);

}  // namespace tutti
