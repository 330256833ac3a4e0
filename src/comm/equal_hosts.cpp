#include "equal_hosts.hpp"

#include <algorithm>
#include <cstring>
#include <map>

namespace tutti {

bool EqualHosts::in_blocks() const {
    return std::ranges::is_sorted(ranks);
}

void EqualHosts::sort_blocks(const std::byte* by_rank, std::size_t bytes, std::byte* by_host) const {
    for (std::size_t i = 0; i < ranks.size(); ++i)
        std::memcpy(by_host + i * bytes, by_rank + static_cast<std::size_t>(ranks[i]) * bytes, bytes);
}

int EqualHosts::position_of(int rank) const {
    return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

std::optional<EqualHosts> equal_hosts(const std::vector<int>& host_of_rank) {
    std::vector<std::vector<int>> ranks_of_host;
    std::map<int, std::size_t> number_of_host;
    for (std::size_t rank = 0; rank < host_of_rank.size(); ++rank) {
        const auto [found, is_new] = number_of_host.try_emplace(host_of_rank[rank], ranks_of_host.size());
        if (is_new) ranks_of_host.emplace_back();
        ranks_of_host[found->second].push_back(static_cast<int>(rank));
    }
    if (ranks_of_host.size() < 2) return std::nullopt;
    EqualHosts result;
    result.hosts = static_cast<int>(ranks_of_host.size());
    result.local_size = static_cast<int>(ranks_of_host.front().size());
    for (const auto& ranks : ranks_of_host) {
        if (ranks.size() != ranks_of_host.front().size()) return std::nullopt;
        result.ranks.insert(result.ranks.end(), ranks.begin(), ranks.end());
    }
    return result;
}

}  // namespace tutti
