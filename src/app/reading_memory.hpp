#pragma once
// What the threads that read keep in memory beside the batches.

#include <cstddef>

#include "tutti/base/config.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {

/// Bytes of batches as they are stored, on their way through crops: with each thread that reads. `ranks`: of
/// the job, which share its batches; val: null where nothing is evaluated.
std::size_t transform_bytes(const Config& config, const Dataset& train, const Dataset* val, int ranks);

/// Bytes that are mapped of files that are brought in, but not mapped as a whole: with each thread that
/// reads, until they are in.
std::size_t bring_in_bytes(const Config& config, const Dataset& train, const Dataset* val);

}  // namespace tutti
