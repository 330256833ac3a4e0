#include "thread_changes.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tutti/base/json_input.hpp"

namespace tutti {

std::string thread_changes(const std::string& provenance, std::span<const RankPlace> places) {
    const auto before = json_or_discarded<nlohmann::json>(provenance);
    if (!before.is_object()) return {};
    const auto ranks = before.find("ranks");
    if (ranks == before.end() || !ranks->is_array() || ranks->size() != places.size()) return {};
    std::string first;
    int changed = 0;
    for (std::size_t rank = 0; rank < places.size(); ++rank) {
        const nlohmann::json& then = (*ranks)[rank];
        const auto threads = then.is_object() ? then.find("threads") : then.end();
        if (threads == then.end() || !threads->is_number_integer()) return {};
        if (*threads == places[rank].threads) continue;
        if (changed++ == 0)
            first =
                fmt::format("rank {}: {} -> {}", rank, threads->get<std::int64_t>(), places[rank].threads);
    }
    return changed > 1 ? fmt::format("{}, and {} more", first, changed - 1) : first;
}

}  // namespace tutti
