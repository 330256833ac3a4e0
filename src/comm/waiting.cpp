#include "waiting.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/base/last_output.hpp"
#include "tutti/base/standard_error.hpp"

namespace tutti {
namespace {

std::string rank_on(int rank, const std::string& host) {
    return "rank " + std::to_string(rank) + " on " + host;
}

}  // namespace

std::string describe_wait(const std::string& call, int rank, const std::string& host, double seconds) {
    return describe_wait(call, rank_on(rank, host), seconds);
}

std::string describe_wait(const std::string& call, const std::string& who, double seconds) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f", seconds);
    return call + ": " + who + " waited " + text.data() + " s for its peers";
}

std::string describe_wait_after_term(const std::string& call, int rank, const std::string& host) {
    return call + ": " + rank_on(rank, host) +
           " still waits for its peers after SIGTERM: where they were sent it, too, one of them has probably "
           "ended; look for the first error of another rank, then start the same command again: a training "
           "goes on from its last checkpoint";
}

std::string name_of_rank(int rank, const std::vector<std::string>& hosts) {
    const auto place = static_cast<std::size_t>(rank);
    return place < hosts.size() ? rank_on(rank, hosts[place]) : "rank " + std::to_string(rank);
}

std::string list_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
    constexpr std::size_t most = 8;
    if (ranks.empty()) return {};
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i) {
        const auto rank = static_cast<std::size_t>(ranks[i]);
        text += (i == 0 ? "" : ", ") + std::to_string(rank);
        if (rank < hosts.size()) text += " on " + hosts[rank];
    }
    if (ranks.size() > most) text += " and " + std::to_string(ranks.size() - most) + " more";
    return text;
}

std::string describe_silence(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
    return ranks.empty() ? "" : "nothing came from " + list_of_ranks(ranks, hosts);
}

std::string unlike_calls(const std::vector<std::optional<std::string>>& calls) {
    std::vector<std::pair<std::string, std::vector<int>>> groups;
    for (std::size_t rank = 0; rank < calls.size(); ++rank) {
        if (!calls[rank]) continue;
        auto place = std::ranges::find(groups, *calls[rank], [](const auto& group) { return group.first; });
        if (place == groups.end()) place = groups.insert(place, {*calls[rank], {}});
        place->second.push_back(static_cast<int>(rank));
    }
    if (groups.size() < 2) return {};
    constexpr std::size_t most = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(groups.size(), most); ++i)
        text += (i == 0 ? "" : "; ") + list_of_ranks(groups[i].second, {}) + ": " + groups[i].first;
    if (groups.size() > most) text += "; and others";
    return text;
}

std::string describe_unlike_calls(const std::string& unlike) {
    return "the ranks wait in unlike calls (" + unlike + ")";
}

void end_for_lost_peer(const std::string& text) {
    write_standard_error("error: " + text + '\n');
    hand_over_output();
    std::_Exit(static_cast<int>(ExitCode::peer));
}

}  // namespace tutti
