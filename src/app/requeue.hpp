#pragma once
// A job that Slurm has started again.

#include <string>

#include "tutti/comm/launch.hpp"

namespace tutti {

/// Whether this job, in an earlier start that Slurm has requeued it from (SLURM_RESTART_COUNT), saved a
/// checkpoint in this run directory: provenance.json there is of the same SLURM_JOB_ID. Throws DataError
/// where the directory cannot be read.
bool has_saved_before_requeue(const Environment& environment, const std::string& run_directory);

}  // namespace tutti
