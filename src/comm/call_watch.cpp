#include "call_watch.hpp"

#include <utility>

#include "deadline.hpp"
#include "waiting.hpp"

namespace tutti {

CallWatch::CallWatch(std::string who, const CallPulse& pulse, std::function<std::string()> lost,
                     std::chrono::milliseconds between_looks, std::function<double()> steady)
    : who_(std::move(who)), between_looks_(between_looks) {
    thread_.start_if_possible(
        [this, &pulse, lost = std::move(lost), steady = std::move(steady)] { watch(pulse, lost, steady); });
}

void CallWatch::watch(const CallPulse& pulse, const std::function<std::string()>& lost,
                      const std::function<double()>& steady) {
    WaitClock clock(steady);
    std::uint64_t call = 0;
    double began = 0;
    while (!thread_.is_over_within(between_looks_)) {
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

}  // namespace tutti
