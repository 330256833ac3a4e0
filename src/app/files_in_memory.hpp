#pragma once
// How much of the data a rank maps, beside the other ranks of its host.

#include <cstdint>
#include <optional>
#include <span>

#include "rank_placement.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {

/// file_memory(), but each of the `ranks` ranks on a host may map its part of what files may take there,
/// where that is more than mapped_limit: the pages are the same for all, yet count in every rank's resident
/// set, and batch systems that add these up come to no more than half of what is available (or ranks times
/// mapped_limit).
FileMemory file_memory_of_rank(std::optional<std::int64_t> available, std::int64_t ranks);

/// How many ranks are on the host of `rank`, itself among them.
std::int64_t ranks_beside(std::span<const RankPlace> places, std::size_t rank);

}  // namespace tutti
