#include "end_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "deadline.hpp"
#include "tutti/base/signals_blocked.hpp"
#include "waiting.hpp"

namespace tutti {

EndWatch::EndWatch(std::string who, double seconds, std::function<double()> steady) {
    if (seconds <= 0) return;
    const SignalsBlocked blocked;  // they are for the process's first thread
    const auto watch = [this, who = std::move(who), seconds, steady = std::move(steady)] {
        constexpr double between_looks = 0.2;
        WaitClock clock(steady);
        std::unique_lock lock(mutex_);
        for (const Deadline deadline(clock, seconds); !deadline.passed();) {
            const std::chrono::duration<double> next(std::clamp(deadline.left(), 0.0, between_looks));
            if (changed_.wait_for(lock, next, [this] { return ended_; })) return;
        }
        end_for_lost_peer(fmt::format(
            "{} waited {:.1f} s in MPI_Finalize for its peers: a rank has died or hangs; what was "
            "written before is complete; {}",
            who, seconds, slow_or_dead));
    };
    try {
        thread_ = std::thread(watch);
    } catch (const std::system_error&) {
        // No thread is to be had: all has been done but for the end of MPI, which then has no time-out.
    }
}

EndWatch::~EndWatch() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

}  // namespace tutti
