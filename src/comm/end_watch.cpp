#include "end_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "deadline.hpp"
#include "waiting.hpp"

namespace tutti {

EndWatch::EndWatch(std::string who, double seconds, std::function<double()> steady) {
    if (seconds <= 0) return;
    // Where no thread is to be had all has been done but for the end of MPI, which then has no time-out.
    thread_.start_if_possible([this, who = std::move(who), seconds, steady = std::move(steady)] {
        constexpr double between_looks = 0.2;
        WaitClock clock(steady);
        for (const Deadline deadline(clock, seconds); !deadline.passed();) {
            const std::chrono::duration<double> next(std::clamp(deadline.left(), 0.0, between_looks));
            if (thread_.is_over_within(next)) return;
        }
        end_for_lost_peer(fmt::format(
            "{} waited {:.1f} s in MPI_Finalize for its peers: a rank has died or hangs; what was "
            "written before is complete; {}",
            who, seconds, slow_or_dead));
    });
}

}  // namespace tutti
