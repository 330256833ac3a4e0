#pragma once
// How much of the data a rank maps, beside the other ranks of its host.

#include <cstdint>
#include <optional>

#include "tutti/comm/launch.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {

/// Whether a batch system may end a job for the sum of its ranks' resident sets, in which pages of files
/// count that the ranks share: in a job whose memory no control group limits. Where one does, such pages are
/// taken back instead.
bool resident_set_is_watched(const Environment& environment, bool group_limits_memory);
/// Of this process.
bool resident_set_is_watched();

/// file_memory(), but where nobody watches resident sets each of the `ranks` ranks on a host may map its part
/// of what files may take there, where that is more than mapped_limit: their sum is no more than half of what
/// is available (or ranks times mapped_limit).
FileMemory file_memory_of_rank(std::optional<std::int64_t> available, std::int64_t ranks, bool watched);
/// Now, in this process.
FileMemory file_memory_of_rank(std::int64_t ranks);

}  // namespace tutti
