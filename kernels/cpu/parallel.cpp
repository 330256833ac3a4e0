#include "parallel.hpp"

#include <array>

namespace tutti {
namespace {

/// Parts [0, count) in a contiguous share for each caller.
class Shares {
  public:
    Shares(std::int64_t count, int callers)
        : count_(count), shares_(std::clamp(callers, 1, static_cast<int>(most))) {
        for (int s = 0; s < shares_; ++s)
            next_of(s).store(share_begin(count, shares_, s), std::memory_order_relaxed);
    }

    int count() const { return shares_; }
    /// take(part) for what nobody has begun of a share.
    template <class Take>
    void go_through(int share, const Take& take) {
        const std::int64_t end = share_begin(count_, shares_, share + 1);
        for (std::int64_t part; (part = next_of(share).fetch_add(1, std::memory_order_relaxed)) < end;)
            take(part);
    }
    bool all_are_begun() const {
        for (int s = 0; s < shares_; ++s)
            if (next_of(s).load(std::memory_order_relaxed) < share_begin(count_, shares_, s + 1))
                return false;
        return true;
    }

  private:
    static constexpr std::size_t most = 64;
    struct alignas(64) Next {
        std::atomic<std::int64_t> part;
    };
    std::atomic<std::int64_t>& next_of(int share) { return next_[static_cast<std::size_t>(share)].part; }
    const std::atomic<std::int64_t>& next_of(int share) const {
        return next_[static_cast<std::size_t>(share)].part;
    }

    std::int64_t count_;
    int shares_;
    std::array<Next, most> next_;
};

}  // namespace

void run_together(int callers, void (*call)(const void* body, int caller, int there), const void* body) {
#pragma omp parallel num_threads(callers)
    {
        const OneThread alone;
        call(body, omp_get_thread_num(), omp_get_num_threads());
    }
}

void for_parts(std::int64_t count, int callers, void (*call)(const void* body, int caller, std::int64_t part),
               const void* body, Taking taking) {
    using Clock = std::chrono::steady_clock;
    Shares shares(count, callers);
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
