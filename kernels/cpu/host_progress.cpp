#include "host_progress.hpp"

#include <omp.h>

#include <chrono>
#include <exception>
#include <utility>

#include "thread_team.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

/// On 1 Gbit/s a transfer that is polled as seldom as this is as fast as one polled every 0.1 ms, and 6 %
/// slower than one polled without a pause; more polls only cost more (tests/bench/results/progress_modes.md).
constexpr std::chrono::microseconds interval{500};

struct HostProgress {
    std::function<void()> poll;
    Clock::time_point next;
    std::exception_ptr failure;
};

thread_local HostProgress progress;

void poll_now() {
    try {
        progress.poll();
    } catch (...) {
        progress.failure = std::current_exception();
    }
    progress.next = Clock::now() + interval;
}

}  // namespace

void set_host_progress(std::function<void()> poll) {
    progress.poll = std::move(poll);
    progress.next = {};
    progress.failure = nullptr;
}

void offer_progress() {
    if (!progress.poll) return;
    if (!progress.failure && Clock::now() >= progress.next) poll_now();
    // No exception may leave a parallel region.
    if (progress.failure && omp_in_parallel() == 0 && !ThreadTeam::inside())
        std::rethrow_exception(std::exchange(progress.failure, nullptr));
}

}  // namespace tutti
