#include "connect_watch.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "tutti/base/signals_blocked.hpp"
#include "waiting.hpp"

namespace tutti {

ConnectWatch::ConnectWatch(std::string who, std::function<std::string()> lost) {
    const SignalsBlocked blocked;  // they are for the process's first thread
    thread_ = std::thread([this, who = std::move(who), lost = std::move(lost)] {
        constexpr std::chrono::milliseconds between_looks(100);
        constexpr int looks_to_be_sure = 6;
        std::string first;  // who ends next may have ended because of that one
        std::unique_lock lock(mutex_);
        for (int looks = 0; looks < looks_to_be_sure; looks = first.empty() ? 0 : looks + 1) {
            if (changed_.wait_for(lock, between_looks, [this] { return connected_; })) return;
            const std::string found = lost();
            if (first.empty() || found.empty()) first = found;
        }
        end_for_lost_peer(fmt::format("{} cannot connect to all ranks: {}; {}", who, first, ended_remedy));
    });
}

ConnectWatch::~ConnectWatch() {
    {
        const std::lock_guard lock(mutex_);
        connected_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

}  // namespace tutti
