#pragma once
// The ways that all-reduces go, and which one it would be on other ranks than those where it was seen. Pure.

#include <string>

#include "tutti/comm/cost_scaling.hpp"

namespace tutti {

/// What Communicator::all_reduce_path() calls them.
namespace ways {
inline constexpr const char* shared_memory = "shared memory";
inline constexpr const char* direct_exchange = "direct exchange";
inline constexpr const char* hosts_then_exchange = "shared memory and direct exchange";
inline constexpr const char* hosts_then_gloo = "shared memory and gloo";
inline constexpr const char* gloo = "gloo";
inline constexpr const char* mpi = "MPI_Iallreduce";
}  // namespace ways

/// A way, and the ranks that went it.
struct SeenPath {
    std::string path;         ///< Communicator::all_reduce_path()
    bool compressed = false;  ///< distributed.compress: bf16
    int world = 0;
    int hosts = 0;  ///< of these ranks; 0: not known
};

/// Communicator::all_reduce_path() of `world` ranks (two at least) that are spread as those were: where these
/// were one on each host, one on each; where each host's ranks add up first, as `at` says; else on one host,
/// or on hosts with different numbers of them. The same path for "shared memory" (still one host), NCCL and
/// whatever else does not depend on the number of ranks, and where a path does but `hosts` are not known.
std::string path_on(const SeenPath& seen, int world, const EvenHosts& at);

/// Whether the ranks of each host add up before the hosts do.
bool adds_within_hosts(const std::string& path);

/// Whether every two ranks, or hosts that add up first, send to each other on this path: 2(p − 1) messages of
/// S/p bytes leave each, as many as in AllReduceShape::ring, and no tree is made.
bool sends_between_all(const std::string& path);

}  // namespace tutti
