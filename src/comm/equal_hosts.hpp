#pragma once
// Private to comm: hosts with the same number of ranks each.

#include <cstddef>
#include <optional>
#include <vector>

namespace tutti {

/// For sums of hosts: what has been measured of direct exchange between them (most_exchanging_ranks).
constexpr int most_equal_hosts = 32;

struct EqualHosts {
    int hosts = 1;
    int local_size = 1;
    /// By host, and there by place: ranks in ascending order. Hosts are in the order of their first ranks.
    std::vector<int> ranks;

    int rank(int host, int place) const { return ranks[static_cast<std::size_t>(host * local_size + place)]; }
    int host_of(int rank) const { return position_of(rank) / local_size; }
    int place_of(int rank) const { return position_of(rank) % local_size; }
    /// Whether the ranks of each host follow one another.
    bool in_blocks() const;
    /// Blocks of `bytes` each, by rank, become blocks by host and place. No overlap.
    void sort_blocks(const std::byte* by_rank, std::size_t bytes, std::byte* by_host) const;

  private:
    int position_of(int rank) const;
};

/// host_of_rank: by rank, any number that the ranks of a host, and no others, have in common. Nothing where
/// hosts have different numbers of ranks, or where there is one host.
std::optional<EqualHosts> equal_hosts(const std::vector<int>& host_of_rank);

}  // namespace tutti
