#pragma once
// What `trainer doctor` knows of a job: plain values that travel as JSON between the ranks.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tutti::doctor {

/// Of one rank. Empty texts and zeros stand for what is not there.
struct RankFacts {
    int rank = 0;
    std::string host;
    int local_rank = 0;
    std::string gpu_name, gpu_uuid;
    std::vector<int> cores;           ///< that the rank may run on
    std::vector<int> launcher_cores;  ///< that it might run on unbound; empty: that is not known
    std::vector<int> numa_nodes;      ///< of these cores
    int threads = 1;                  ///< that Tutti will compute with
    int wanted_threads = 0;           ///< that the launch asks for; 0: it does not say
    std::string wanted_by;            ///< the variable that asks for them
    /// Versions by name: "MPI", "HDF5", "NCCL", "cuDNN".
    std::map<std::string, std::string> libraries;
    std::string hdf5_locking;  ///< "on", "off (…)", or "refused (…)"
    std::int64_t shm_bytes = 0;
    std::vector<std::string> interfaces;
    std::map<std::string, std::string> interface_variables;  ///< variables that name interfaces
    double clock_ahead = 0;                                  ///< seconds, of rank 0's clock
};

/// An all-reduce self-check, as rank 0 saw it.
struct AllReduceFacts {
    std::string backend;
    std::string path;          ///< Communicator::all_reduce_path
    double largest_error = 0;  ///< of ten random sums, absolute
    double allowed_error = 0;  ///< what rounding explains
    std::int64_t bytes = 0;    ///< of the large one
    double seconds = 0;        ///< that it took
    std::int64_t wrong = 0;    ///< elements of the large one that are not exact
};

/// What training with `device: auto` makes of the GPUs. Texts are for people.
struct GpuFacts {
    int able_ranks = 0;                        ///< that could compute on a GPU
    std::string why_cpu;                       ///< why it takes the CPU; empty: it takes the GPUs, or ends
    std::string refusal;                       ///< why the ranks' GPUs cannot be taken
    std::string why_no_nccl;                   ///< why gradients go through host memory
    std::string failure;                       ///< what ended the check of their sums
    std::optional<AllReduceFacts> all_reduce;  ///< of the GPUs' memory, by several ranks
};

struct JobFacts {
    std::string launcher;
    /// Why the launch starts something else than it seems to; see mismatch_with_mpi.
    std::string launch_mismatch;
    std::vector<RankFacts> ranks;
    AllReduceFacts all_reduce;  ///< of the host's memory
    GpuFacts gpus;
};

std::string to_json(const RankFacts& facts);
RankFacts rank_facts_from_json(const std::string& text);

}  // namespace tutti::doctor
