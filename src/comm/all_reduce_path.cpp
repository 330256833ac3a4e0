#include "tutti/comm/all_reduce_path.hpp"

#include "equal_hosts.hpp"
#include "exchange_limits.hpp"

namespace tutti {
namespace {

/// Without what staging adds: "…, through pinned host memory".
std::string way_of(const std::string& path) {
    return path.substr(0, path.find(", "));
}

std::string way_on(const SeenPath& seen, int world, const EvenHosts& at) {
    const std::string way = way_of(seen.path);
    // MPI would round each partial sum of bf16, so these exchange directly on any number of ranks.
    const std::string otherwise = seen.compressed ? ways::direct_exchange : ways::mpi;
    if (adds_within_hosts(way) && seen.hosts == 0) return way;
    const bool too_many_hosts = at.hosts > most_equal_hosts;
    if (way == ways::hosts_then_exchange)
        return too_many_hosts ? otherwise : at.each == 1 ? ways::direct_exchange : way;
    if (way == ways::hosts_then_gloo) return too_many_hosts || at.each == 1 ? ways::gloo : way;
    if (way != ways::direct_exchange && way != ways::mpi) return way;
    const bool one_each = seen.hosts == seen.world || (seen.hosts == 0 && way == ways::direct_exchange);
    return world <= (one_each ? most_exchanging_ranks : most_mixed_ranks) ? ways::direct_exchange : otherwise;
}

}  // namespace

std::string path_on(const SeenPath& seen, int world, const EvenHosts& at) {
    if (world == seen.world) return seen.path;
    return way_on(seen, world, at) + seen.path.substr(way_of(seen.path).size());
}

bool adds_within_hosts(const std::string& path) {
    const std::string way = way_of(path);
    return way == ways::hosts_then_exchange || way == ways::hosts_then_gloo;
}

bool sends_between_all(const std::string& path) {
    const std::string way = way_of(path);
    return way == ways::direct_exchange || way == ways::gloo || adds_within_hosts(way);
}

}  // namespace tutti
