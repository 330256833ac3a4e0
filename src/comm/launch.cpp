#include "tutti/comm/launch.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>

namespace tutti {
namespace {

/// A natural number, or nothing when the variable is absent or not one.
std::optional<int> number(const Environment& environment, const std::string& name) {
    const auto found = environment.find(name);
    if (found == environment.end()) return {};
    const std::string& text = found->second;
    const char* const end = text.data() + text.size();
    int value = 0;
    const auto result = std::from_chars(text.data(), end, value);
    if (result.ec != std::errc{} || result.ptr != end || value < 0) return {};
    return value;
}

struct Place {
    int rank = 0;
    int size = 0;
    friend bool operator==(const Place&, const Place&) = default;
};
std::optional<Place> place(const Environment& environment, const std::string& rank_name,
                           const std::string& size_name) {
    const auto rank = number(environment, rank_name);
    const auto size = number(environment, size_name);
    if (!rank || !size || *rank >= *size) return {};
    return Place{*rank, *size};
}

std::optional<Place> mpirun_place(const Environment& environment) {
    return place(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
}
std::optional<Place> torchrun_place(const Environment& environment) {
    // RANK and WORLD_SIZE alone are often left over from a shell; the run id is set by the agent.
    if (!environment.contains("TORCHELASTIC_RUN_ID")) return {};
    return place(environment, "RANK", "WORLD_SIZE");
}
std::optional<Place> step_place(const Environment& environment) {
    return place(environment, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
}
std::optional<Place> pmi_place(const Environment& environment) {
    return place(environment, "PMI_RANK", "PMI_SIZE");
}

/// Is there a server that tells MPI who its peers are?
bool has_process_manager(const Environment& environment) {
    return environment.contains("PMIX_RANK") || environment.contains("PMI_RANK") ||
           environment.contains("PMI_FD");
}

std::string start_with_srun(int tasks) {
    return "start it with: srun --mpi=pmix --ntasks=" + std::to_string(tasks) + " trainer …";
}

}  // namespace

Environment current_environment() {
    Environment environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string text = *entry;
        const auto equals = text.find('=');
        if (equals != std::string::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return environment;
}

LaunchFacts read_launch(const Environment& environment) {
    LaunchFacts facts;
    facts.inside_slurm_job = environment.contains("SLURM_JOB_ID") || environment.contains("SLURM_JOBID");

    const auto found = [&](Launcher launcher, const Place& where, const std::string& local_rank,
                           const std::string& local_size) {
        facts.launcher = launcher;
        facts.rank = where.rank;
        facts.world_size = where.size;
        facts.local_rank = number(environment, local_rank);
        facts.local_size = number(environment, local_size);
        return facts;
    };

    if (const auto where = mpirun_place(environment))
        return found(Launcher::mpirun, *where, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
    if (const auto where = torchrun_place(environment))
        return found(Launcher::torchrun, *where, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
    const auto step = step_place(environment);
    // srun --mpi=pmi2 sets PMI_* too, with the step's own numbers.
    if (const auto where = pmi_place(environment); where && where != step)
        return found(Launcher::mpiexec_hydra, *where, "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
    // Slurm gives no plain number for the tasks on this host.
    if (step) return found(Launcher::srun, *step, "SLURM_LOCALID", "");
    return facts;
}

std::string to_string(Launcher launcher) {
    switch (launcher) {
        case Launcher::plain:
            return "plain";
        case Launcher::mpirun:
            return "mpirun";
        case Launcher::srun:
            return "srun";
        case Launcher::torchrun:
            return "torchrun";
        case Launcher::mpiexec_hydra:
            return "mpiexec (Hydra)";
    }
    return "?";
}

std::optional<std::string> mismatch_before_mpi(const Environment& environment) {
    if (mpirun_place(environment)) return {};
    const auto step = step_place(environment);
    const bool connected = has_process_manager(environment);

    if (const auto torchrun = torchrun_place(environment); torchrun && torchrun->size > 1) {
        // `srun torchrun` hands its own PMIx place, one per agent, to all the workers of that agent.
        const bool agents_place = step && step->size != torchrun->size;
        if (!connected || agents_place)
            return "torchrun brings no MPI, so its " + std::to_string(torchrun->size) +
                   " processes cannot find each other; start it with: mpirun -np " +
                   std::to_string(torchrun->size) + " trainer …";
    }
    if (step && step->size > 1 && !connected)
        return "srun started " + std::to_string(step->size) +
               " tasks without PMIx, so MPI cannot connect them; " + start_with_srun(step->size);
    return {};
}

std::optional<std::string> mismatch_with_mpi(const Environment& environment, int mpi_size) {
    const auto step = step_place(environment);
    if (mpi_size != 1 || !step || step->size <= 1 || mpirun_place(environment)) return {};
    if (const auto pmi = pmi_place(environment); pmi && pmi->size == 1) return {};
    return "srun started " + std::to_string(step->size) +
           " tasks, but MPI sees 1: every task would train alone; " + start_with_srun(step->size);
}

int threads_for_rank(std::span<const std::vector<int>> cores, std::size_t local_rank) {
    const std::set<int> own(cores[local_rank].begin(), cores[local_rank].end());
    const auto sharing = std::count_if(cores.begin(), cores.end(), [&](const std::vector<int>& other) {
        return std::any_of(other.begin(), other.end(), [&](int core) { return own.contains(core); });
    });
    if (sharing == 0) return 1;
    return std::max(1, static_cast<int>(own.size()) / static_cast<int>(sharing));
}

std::vector<int> bound_cores() {
    // The kernel refuses with EINVAL a set smaller than its own; cpu_set_t ends at 1024 cores.
    for (std::size_t cores = CPU_SETSIZE; cores <= (1U << 20); cores *= 2) {
        cpu_set_t* const set = CPU_ALLOC(cores);
        if (set == nullptr) break;
        const std::size_t bytes = CPU_ALLOC_SIZE(cores);
        CPU_ZERO_S(bytes, set);
        const int status = sched_getaffinity(0, bytes, set);
        const int reason = errno;
        std::vector<int> bound;
        for (std::size_t core = 0; status == 0 && core < cores; ++core)
            if (CPU_ISSET_S(core, bytes, set)) bound.push_back(static_cast<int>(core));
        CPU_FREE(set);
        if (status == 0) return bound;
        if (reason != EINVAL) break;
    }
    // Affinity is unknown (a sandbox may forbid the call): one core is certain.
    return {0};
}

}  // namespace tutti
