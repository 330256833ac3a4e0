#pragma once
// Who started this process, and how do its ranks find each other? Pure functions of the environment; nothing
// here calls MPI.

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/base/error.hpp"

namespace tutti {

using Environment = std::map<std::string, std::string>;
/// The process's environment. Call before MPI_Init: Open MPI's singleton start adds OMPI_* and PMIX_* of its
/// own.
Environment current_environment();
/// A variable's text; the empty string when it is absent.
std::string text_of(const Environment& environment, const std::string& name);

/// by_hand: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set by a script.
enum class Launcher { plain, mpirun, srun, torchrun, mpiexec_hydra, by_hand };

/// What the environment claims. Absent facts are empty: nothing is guessed.
struct LaunchFacts {
    Launcher launcher = Launcher::plain;
    std::optional<int> rank, world_size, local_rank, local_size;
    bool inside_slurm_job = false;
};

/// Order of proof: OMPI_COMM_WORLD_* (mpirun, also inside Slurm, where SLURM_PROCID is 0 on every rank),
/// torchrun's RANK/WORLD_SIZE (with TORCHELASTIC_RUN_ID), PMI_RANK/PMI_SIZE that differ from the Slurm step
/// (Hydra; its proxies are a Slurm step of their own), RANK/WORLD_SIZE/MASTER_ADDR/MASTER_PORT (by hand;
/// only where no process manager and no Slurm step of as many tasks speaks for itself), a Slurm step
/// (SLURM_STEP_NUM_TASKS with SLURM_PROCID), plain. A number that is not one ("", "-1", "abc") counts as
/// absent, and so does a rank that is not below its world size.
LaunchFacts read_launch(const Environment& environment);

/// The names of variables that speak of a step of another Slurm job: sbatch hands on those of a step in which
/// it is called, and PMIx's namespace tells which job that was. Without them MPI would look for a server that
/// is not there. None where the step is this job's.
std::vector<std::string> variables_of_another_job(const Environment& environment);

/// The name of a launcher for people: "mpirun", "srun", ….
std::string to_string(Launcher launcher);

/// The nearest process of this launcher above the calling one, as far as `proc` shows; 0: there is none, as
/// where only variables of one are left over in a shell, and for ranks by hand. A container may hide it.
int process_above(Launcher launcher, const std::filesystem::path& proc = "/proc");
/// Whether there is one.
bool runs_below(Launcher launcher, const std::filesystem::path& proc = "/proc");

/// How the ranks of a launch find each other.
enum class Bootstrap {
    mpi,        ///< MPI_Init: mpirun, srun with a PMI(x) server, plain
    rendezvous  ///< MASTER_ADDR and MASTER_PORT: torchrun, srun without PMI(x), by hand
};
Bootstrap bootstrap_of(const Environment& environment);

/// Where the ranks of a launch without MPI meet: the host of rank 0, the first port to try there, and a text
/// that tells this job from others on the same host (port, torchrun's run and restart, Slurm's job and step).
struct MeetingPoint {
    std::string address;
    int port = 0;
    std::string job;
    friend bool operator==(const MeetingPoint&, const MeetingPoint&) = default;
};
/// MASTER_ADDR and MASTER_PORT. Under srun an absent one is derived: the first host of the step, and a port
/// from 20000 to 29999 by the job's id. Nothing when that is not possible.
std::optional<MeetingPoint> meeting_point(const Environment& environment);

/// The first host of a Slurm list: "node[03-07,9],gpu1" → "node03".
std::string first_host(const std::string& slurm_list);

/// A launch that cannot work, which every rank finds in its own environment: one of them tells it where there
/// is a launcher, and else each process.
struct LaunchMismatch : LaunchError {
    using LaunchError::LaunchError;
};

/// A launch that cannot work, proved before anything starts: several ranks that must meet, but no MASTER_ADDR
/// or MASTER_PORT; some of RANK, WORLD_SIZE > 1, MASTER_ADDR and MASTER_PORT, but not all (PyTorch's env://
/// refuses that, too), where no launcher says more; a RANK that WORLD_SIZE does not have. Returns "problem;
/// the command line that fixes it", or nothing.
std::optional<std::string> mismatch_before_start(const Environment& environment);

/// A mismatch that can be proved once MPI says its size: only SLURM_STEP_NUM_TASKS > 1 with an MPI world of 1
/// that no other launcher asked for (OMPI_COMM_WORLD_SIZE, PMI_SIZE=1). Plain `./trainer` inside sbatch
/// (SLURM_NTASKS=4) is fine.
std::optional<std::string> mismatch_with_mpi(const Environment& environment, int mpi_size);

/// Computing threads of a rank. `cores`: for every rank on this host the set of cores it may run on; ranks
/// that share cores share them evenly: floor(|own| / ranks whose set intersects own), at least 1.
int threads_for_rank(std::span<const std::vector<int>> cores, std::size_t local_rank);

/// The cores this process may run on, ascending (sched_getaffinity).
std::vector<int> bound_cores();

}  // namespace tutti
