#include "parallel.hpp"

#include "thread_team.hpp"

namespace tutti {
void run_together(int callers, void (*call)(const void* body, int caller, int there), const void* body) {
    if (ThreadTeam* const team = ThreadTeam::ready(callers)) return team->run(callers, call, body);
    if (ThreadTeam::inside()) return call(body, 0, 1);  // as OpenMP in a region of its own
#pragma omp parallel num_threads(callers)
    {
        const OneThread alone;
        call(body, omp_get_thread_num(), omp_get_num_threads());
    }
}

void for_parts(std::int64_t count, int callers, void (*call)(const void* body, int caller, std::int64_t part),
               const void* body, Taking taking) {
    using Clock = std::chrono::steady_clock;
    constexpr std::size_t line = 64;
    Shares<line> shares(count, callers);
    std::exception_ptr failure;
    run_together(callers, [&](int caller, int there) {
        const auto take = [&](std::int64_t part) { call(body, caller, part); };
        try {
            // For a share that has no caller of its own nobody waits.
            const bool waits =
                taking == Taking::after_a_wait && shares.count() > 1 && there >= shares.count();
            const Clock::time_point begin = waits ? Clock::now() : Clock::time_point{};
            shares.go_through(caller % shares.count(), take);
            if (waits) {
                const Clock::time_point end = Clock::now(), latest = end + patience_after(end - begin);
                while (!shares.all_are_begun() && Clock::now() < latest) pause_in_loop();
            }
            for (int turn = 1; turn < shares.count(); ++turn)
                shares.go_through((caller + turn) % shares.count(), take);
        } catch (...) {
#pragma omp critical(tutti_for_parts)
            if (!failure) failure = std::current_exception();
        }
    });
    if (failure) std::rethrow_exception(failure);
    offer_progress();
}

}  // namespace tutti
