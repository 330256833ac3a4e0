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

bool is_port(const std::optional<int>& number) {
    return number && *number >= 1 && *number <= 65535;
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

/// Does a process manager, or a Slurm step of as many tasks, say more about the ranks than WORLD_SIZE = size?
bool speaks_for_itself(const Environment& environment, int size) {
    const auto step = step_place(environment);
    const bool connected = has_process_manager(environment);
    return step ? step->size > 1 && (connected || size <= step->size) : connected;
}

/// A launch needs all four variables; mismatch_before_start refuses one that lacks some.
std::optional<Place> place_by_hand(const Environment& environment) {
    const auto where = place(environment, "RANK", "WORLD_SIZE");
    if (!where || !environment.contains("MASTER_ADDR") || !environment.contains("MASTER_PORT")) return {};
    if (speaks_for_itself(environment, where->size)) return {};
    return where;
}

/// Jobs that run at the same time on one host get different ports, mostly.
std::optional<int> port_of_slurm_job(const Environment& environment) {
    const auto job = number(environment, "SLURM_JOB_ID");
    if (!job) return {};
    return 20000 + (*job % 1000) * 10 + number(environment, "SLURM_STEP_ID").value_or(0) % 10;
}

/// A launch by hand that lacks a variable, or whose RANK cannot be: every process would train alone.
std::optional<std::string> incomplete_by_hand(const Environment& environment) {
    const Launcher launcher = read_launch(environment).launcher;
    // A step of one task may hold ranks by hand: an interactive shell, say.
    if (launcher != Launcher::plain && launcher != Launcher::srun) return {};
    const auto says = [&](const std::string& name) { return environment.contains(name); };
    const std::string rank = text_of(environment, "RANK"), size = text_of(environment, "WORLD_SIZE");
    const int ranks = number(environment, "WORLD_SIZE").value_or(1);
    const std::string alone = " not set: every process would train alone; set ";
    const std::string start = ", start it with: mpirun -np " + size + " trainer …, or unset ";
    if (says("RANK") && says("WORLD_SIZE")) {
        const bool meets = says("MASTER_ADDR") && says("MASTER_PORT");
        const bool counts = ranks > 1 && !speaks_for_itself(environment, ranks);
        if (!place(environment, "RANK", "WORLD_SIZE") && (counts || (meets && launcher == Launcher::plain)))
            return "RANK is " + rank + " and WORLD_SIZE " + size +
                   ", but ranks are 0 to WORLD_SIZE - 1; correct them, or unset both to train alone";
        if (!counts || meets) return {};
        const std::string missing = says("MASTER_ADDR")   ? "MASTER_PORT is"
                                    : says("MASTER_PORT") ? "MASTER_ADDR is"
                                                          : "MASTER_ADDR and MASTER_PORT are";
        return "RANK is " + rank + " and WORLD_SIZE " + size + ", but " + missing + alone +
               "MASTER_ADDR to the host of rank 0 and MASTER_PORT to a free port there, the same on every "
               "rank" +
               start + "RANK and WORLD_SIZE to train alone";
    }
    // A process manager gives a rank without a variable, and the script of a Slurm job may have set one of
    // the two for its steps.
    if (launcher != Launcher::plain || has_process_manager(environment) || says("SLURM_JOB_ID")) return {};
    if (ranks > 1)
        return "WORLD_SIZE is " + size + ", but RANK is" + alone + "RANK, MASTER_ADDR and MASTER_PORT" +
               start + "WORLD_SIZE to train alone";
    if (says("RANK") && says("MASTER_ADDR"))
        return "RANK is " + rank + " and MASTER_ADDR " + text_of(environment, "MASTER_ADDR") +
               ", but WORLD_SIZE is" + alone + "it to the number of ranks, or unset RANK to train alone";
    return {};
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

std::string text_of(const Environment& environment, const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? "" : found->second;
}

std::vector<std::string> variables_of_another_job(const Environment& environment) {
    // "slurm.pmix.JOB.STEP"; of a heterogeneous job the JOB of its first part.
    if (environment.contains("SLURM_HET_SIZE")) return {};
    const std::string before = "slurm.pmix.", space = text_of(environment, "PMIX_NAMESPACE");
    const std::string job = text_of(environment, "SLURM_JOB_ID");
    if (job.empty() || !space.starts_with(before) || space.substr(before.size()).starts_with(job + "."))
        return {};
    std::vector<std::string> names;
    for (const auto& [name, value] : environment)
        for (const char* family : {"PMIX_", "SLURM_PMIX", "SLURM_STEP"})
            if (name.starts_with(family) && !name.starts_with("PMIX_MCA_"))
                names.push_back(name);  // the site's
    return names;
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

    // `mpirun torchrun`: the place of Open MPI's is the agent's, which torchrun numbers as a group.
    const auto agent = place(environment, "GROUP_RANK", "GROUP_WORLD_SIZE");
    const auto by_torchrun = torchrun_place(environment);
    if (const auto where = mpirun_place(environment); where && !(by_torchrun && agent == where))
        return found(Launcher::mpirun, *where, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
    if (by_torchrun) return found(Launcher::torchrun, *by_torchrun, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
    const auto step = step_place(environment);
    // srun --mpi=pmi2 sets PMI_* too, with the step's own numbers.
    if (const auto where = pmi_place(environment); where && where != step)
        return found(Launcher::mpiexec_hydra, *where, "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
    if (const auto where = place_by_hand(environment))
        return found(Launcher::by_hand, *where, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
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
        case Launcher::by_hand:
            return "RANK and WORLD_SIZE";
    }
    return "?";
}

Bootstrap bootstrap_of(const Environment& environment) {
    switch (read_launch(environment).launcher) {
        case Launcher::torchrun:  // also as `srun torchrun`, whose PMIx place is the agent's
        case Launcher::by_hand:
            return Bootstrap::rendezvous;
        case Launcher::srun:
            // Open MPI aborts in MPI_Init when a step has no PMIx, even a step of one task.
            return has_process_manager(environment) ? Bootstrap::mpi : Bootstrap::rendezvous;
        case Launcher::plain:
        case Launcher::mpirun:
        case Launcher::mpiexec_hydra:
            break;
    }
    return Bootstrap::mpi;
}

std::string first_host(const std::string& slurm_list) {
    std::string host;
    for (std::size_t at = 0; at < slurm_list.size() && slurm_list[at] != ',';) {
        if (slurm_list[at] != '[') {
            host += slurm_list[at++];
            continue;
        }
        const auto close = slurm_list.find(']', at);
        if (close == std::string::npos) return {};
        const auto range_end = std::min(slurm_list.find_first_of(",-", at), close);
        host += slurm_list.substr(at + 1, range_end - at - 1);
        at = close + 1;
    }
    return host;
}

std::optional<MeetingPoint> meeting_point(const Environment& environment) {
    const LaunchFacts facts = read_launch(environment);
    std::string address = text_of(environment, "MASTER_ADDR");
    auto port = number(environment, "MASTER_PORT");
    if (facts.launcher == Launcher::srun) {
        if (address.empty()) address = first_host(text_of(environment, "SLURM_STEP_NODELIST"));
        if (!port) port = port_of_slurm_job(environment);
    }
    if (address.empty() || !is_port(port)) return {};

    std::string job = std::to_string(*port);
    for (const char* name :
         {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_RESTART_COUNT"})
        job += "/" + text_of(environment, name);
    if (facts.launcher == Launcher::srun) job += "/" + text_of(environment, "SLURM_STEP_ID");
    return MeetingPoint{address, *port, job};
}

std::optional<std::string> mismatch_before_start(const Environment& environment) {
    if (const auto incomplete = incomplete_by_hand(environment)) return incomplete;
    const LaunchFacts facts = read_launch(environment);
    const int ranks = facts.world_size.value_or(1);
    if (bootstrap_of(environment) == Bootstrap::mpi || ranks == 1 || meeting_point(environment)) return {};
    const std::string port = text_of(environment, "MASTER_PORT");
    const std::string problem =
        !port.empty() && !is_port(number(environment, "MASTER_PORT"))
            ? "MASTER_PORT=" + port + " is not a port from 1 to 65535"
            : to_string(facts.launcher) + " started " + std::to_string(ranks) +
                  " ranks without MPI, and MASTER_ADDR and MASTER_PORT do not say where they meet";
    if (facts.launcher == Launcher::srun) return problem + "; " + start_with_srun(ranks);
    return problem + "; set both (a host name, a port from 1 to 65535), or start it with: mpirun -np " +
           std::to_string(ranks) + " trainer …";
}

std::optional<std::string> mismatch_with_mpi(const Environment& environment, int mpi_size) {
    const LaunchFacts facts = read_launch(environment);
    const bool by_mpi = facts.launcher == Launcher::mpirun || facts.launcher == Launcher::mpiexec_hydra;
    if (mpi_size == 1 && by_mpi && facts.world_size.value_or(1) > 1)
        return to_string(facts.launcher) + " started " + std::to_string(*facts.world_size) +
               " ranks, but MPI sees 1: every rank would train alone; the program is linked with another MPI "
               "than that launcher's (`ldd trainer` shows which); start it with: the mpirun or mpiexec of "
               "that MPI";
    // The number of tasks alone: who has lost the rest of srun's variables on the way is one of them, too.
    const int tasks = number(environment, "SLURM_STEP_NUM_TASKS").value_or(1);
    if (mpi_size != 1 || tasks <= 1 || environment.contains("OMPI_COMM_WORLD_SIZE")) return {};
    if (const auto pmi = pmi_place(environment); pmi && pmi->size == 1) return {};
    return "srun started " + std::to_string(tasks) +
           " tasks, but MPI sees 1: every task would train alone; " + start_with_srun(tasks);
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
