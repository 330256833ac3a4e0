#include "call_watch.hpp"

#include <chrono>
#include <system_error>
#include <utility>

#include "deadline.hpp"
#include "tutti/base/signals_blocked.hpp"
#include "waiting.hpp"

namespace tutti {

CallWatch::CallWatch(std::string who, const CallPulse& pulse, std::function<std::string()> lost,
                     std::chrono::milliseconds between_looks, std::function<double()> steady)
    : who_(std::move(who)), between_looks_(between_looks) {
    const SignalsBlocked blocked;  // they are for the process's first thread
    try {
        thread_ = std::thread([this, &pulse, lost = std::move(lost), steady = std::move(steady)] {
            watch(pulse, lost, steady);
        });
    } catch (const std::system_error&) {
    }
}

void CallWatch::watch(const CallPulse& pulse, const std::function<std::string()>& lost,
                      const std::function<double()>& steady) {
    WaitClock clock(steady);
    std::uint64_t call = 0;
    double began = 0;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, between_looks_, [this] { return ended_; })) {
        const double now = clock.now();
        const std::uint64_t seen = pulse.now();
        if (seen == 0 || seen != call) {
            call = seen;
            began = now;
            continue;
        }
        const double lasted = now - began;
        if (lasted < patience) continue;
        if (const std::string found = lost(); !found.empty()) end(lasted, ": " + found + "; " + ended_remedy);
        if (pulse.timeout() > 0 && lasted > pulse.timeout()) end(lasted, std::string("; ") + slow_or_dead);
    }
}

void CallWatch::end(double lasted, const std::string& why) const {
    end_for_lost_peer(describe_wait("a call of MPI that does not come back", who_, lasted) + why);
}

CallWatch::~CallWatch() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

}  // namespace tutti
