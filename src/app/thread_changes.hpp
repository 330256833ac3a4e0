#pragma once
// Whether a run that goes on computes with as many threads as before: sums are cut by them.

#include <span>
#include <string>

#include "rank_placement.hpp"

namespace tutti {

/// "rank 1: 1 -> 2, and 2 more": the ranks whose threads are not those in `provenance`, the text of the run's
/// provenance.json. Empty where none is, where that does not say, and where it is of another number of ranks.
std::string thread_changes(const std::string& provenance, std::span<const RankPlace> places);

}  // namespace tutti
