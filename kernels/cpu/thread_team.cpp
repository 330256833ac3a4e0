#include "thread_team.hpp"

#include <omp.h>
#include <signal.h>
#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "parallel.hpp"
#include "short_waits.hpp"
#include "tutti/base/signals_blocked.hpp"

namespace tutti {
namespace {

constexpr int most_threads = 8;
/// Looks at what another thread will write before a core is given up: 0.1 to 0.2 ms.
constexpr int most_looks = 4096;

thread_local ThreadTeam* latest = nullptr;
/// Of the team's own threads.
thread_local bool computes = false;

/// Whether the user wants threads to wait asleep from the start.
bool waits_are_passive() {
    const char* const policy = std::getenv("OMP_WAIT_POLICY");
    return policy != nullptr && strcasecmp(policy, "passive") == 0;
}

}  // namespace

ThreadTeam::ThreadTeam(int threads, int cores) {
    const int most = std::min(most_threads, cores > 0 ? cores : omp_get_num_procs());
    if (threads < 2 || threads > most || omp_get_proc_bind() != omp_proc_bind_false || waits_are_passive())
        return;
    latest = this;
    // But those of what a thread does itself.
    const SignalsBlocked blocked{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF};
    try {
        for (int number = 1; number < threads; ++number)
            threads_.emplace_back([this, number] { work(number); });
    } catch (const std::system_error&) {
        // For so many callers there is no team then.
    }
}

ThreadTeam::~ThreadTeam() {
    if (latest == this) latest = nullptr;
    state_.store(last_job, std::memory_order_seq_cst);  // as in run()
    state_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

ThreadTeam* ThreadTeam::ready(int callers) {
    ThreadTeam* const team = latest;
    if (team == nullptr || callers < 2 || callers > static_cast<int>(team->threads_.size()) + 1)
        return nullptr;
    return team->step_passed_ && !team->runs_ && !ShortWaits::held() ? team : nullptr;
}

void ThreadTeam::begin_step() {
    step_passed_ = step_begun_;
    step_begun_ = true;
}

bool ThreadTeam::inside() {
    return computes || (latest != nullptr && latest->runs_);
}

void ThreadTeam::run(int callers, Call call, const void* body) noexcept {
    runs_ = true;
    call_ = call;
    body_ = body;
    done_.store(0, std::memory_order_relaxed);
    const std::uint32_t next = (state_.load(std::memory_order_relaxed) & ~callers_mask) + one_job;
    // Sequentially consistent, as notify_all() looks for sleepers without a barrier of its own: its read must
    // not come before this is seen, or one that falls asleep now sleeps on.
    state_.store(next | static_cast<std::uint32_t>(callers), std::memory_order_seq_cst);
    state_.notify_all();
    {
        const OneThread alone;
        call(body, 0, callers);
    }
    for (int look = 0; done_.load(std::memory_order_acquire) < callers - 1; ++look)
        if (look < most_looks)
            pause_in_loop();
        else
            std::this_thread::yield();  // they may need this core
    runs_ = false;
}

void ThreadTeam::work(int number) noexcept {
    const OneThread alone;
    for (std::uint32_t known = 0;;) {
        for (int look = 0; look < most_looks && state_.load(std::memory_order_relaxed) == known; ++look)
            pause_in_loop();
        state_.wait(known, std::memory_order_acquire);
        known = state_.load(std::memory_order_acquire);
        const auto callers = static_cast<int>(known & callers_mask);
        if (known == last_job) return;
        if (number >= callers) continue;
        computes = true;
        call_(body_, number, callers);
        computes = false;
        done_.fetch_add(1, std::memory_order_release);
    }
}

void ThreadTeam::note_library_region() {
    if (latest != nullptr && omp_get_max_threads() > 1) latest->step_begun_ = latest->step_passed_ = false;
}

}  // namespace tutti
