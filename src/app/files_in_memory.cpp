#include "files_in_memory.hpp"

#include <algorithm>
#include <array>

#include "tutti/base/memory_use.hpp"

namespace tutti {

bool resident_set_is_watched(const Environment& environment, bool group_limits_memory) {
    // Of Slurm, PBS, LSF, Grid Engine and Fujitsu's; that of Grid Engine is too common a name to go by alone.
    constexpr std::array job_names = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PJM_JOBID"};
    const bool in_a_job =
        std::ranges::any_of(job_names, [&](const char* name) { return environment.contains(name); }) ||
        (environment.contains("JOB_ID") && environment.contains("SGE_ROOT"));
    return in_a_job && !group_limits_memory;
}

bool resident_set_is_watched() {
    return resident_set_is_watched(current_environment(), group_limits_memory());
}

FileMemory file_memory_of_rank(std::optional<std::int64_t> available, std::int64_t ranks, bool watched) {
    FileMemory memory = file_memory(available);
    if (!watched) memory.map = std::max(memory.map, memory.bring_in / static_cast<std::uint64_t>(ranks));
    return memory;
}

FileMemory file_memory_of_rank(std::int64_t ranks) {
    return file_memory_of_rank(available_bytes(), ranks, resident_set_is_watched());
}

}  // namespace tutti
