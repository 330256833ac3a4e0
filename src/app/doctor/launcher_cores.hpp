#pragma once
// The cores that a rank would have had, had its launcher bound it to none.

#include <string>
#include <vector>

#include "tutti/comm/launch.hpp"

namespace tutti::doctor {

/// The cores that mpirun, or its part on this host, may run on (Cpus_allowed_list of its /proc/PID/status,
/// proc(5)), ascending. Empty where it is not certain that the job may use them all: no such process is seen
/// above this one, a batch system gave the job fewer (Slurm) or does not tell, or a control group of this
/// process, or one around it, has a quota of CPU time (version 2: cpu.max; version 1: cpu.cfs_quota_us).
/// /proc and /sys/fs/cgroup are looked for under `root`.
std::vector<int> launcher_cores(const Environment& environment, const std::string& root = "");

}  // namespace tutti::doctor
