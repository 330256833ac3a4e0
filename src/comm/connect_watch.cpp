#include "connect_watch.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "waiting.hpp"

namespace tutti {

ConnectWatch::ConnectWatch(std::string who, std::function<std::string()> lost) {
    thread_.start([this, who = std::move(who), lost = std::move(lost)] {
        constexpr std::chrono::milliseconds between_looks(100);
        constexpr int looks_to_be_sure = 6;
        std::string first;  // who ends next may have ended because of that one
        for (int looks = 0; looks < looks_to_be_sure; looks = first.empty() ? 0 : looks + 1) {
            if (thread_.is_over_within(between_looks)) return;
            const std::string found = lost();
            if (first.empty() || found.empty()) first = found;
        }
        end_for_lost_peer(fmt::format("{} cannot connect to all ranks: {}; {}", who, first, ended_remedy));
    });
}

}  // namespace tutti
