#pragma once
// How many samples a host will read: what decides whether it brings whole files into memory.

#include <cstddef>
#include <cstdint>
#include <span>

#include "rank_placement.hpp"
#include "tutti/base/config.hpp"

namespace tutti {

/// Samples of data.train, which has `samples`, that a run on `world` ranks reads, all ranks together: those
/// of its epochs, or of train.max_steps where these are fewer. What a resumed or stopped run leaves out
/// counts.
double training_reads(const Config& config, std::int64_t samples, std::int64_t world);

/// The same of data.val, which has `validation_samples`: all of them per evaluation, of which one is at
/// least.
double validation_reads(const Config& config, std::int64_t samples, std::int64_t validation_samples,
                        std::int64_t world);

/// The part of `reads` that falls to the ranks on the host of `rank`: all ranks read as many.
double reads_on_host(double reads, std::span<const RankPlace> places, std::size_t rank);

}  // namespace tutti
