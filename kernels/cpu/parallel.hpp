#pragma once
// How loops are cut among OpenMP threads: always into the same ranges for the same number of threads, so that
// sums that are combined range by range have the same bits in every run.

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <thread>

#include "computing_threads.hpp"
#include "host_progress.hpp"
#include "thread_team.hpp"

namespace tutti {

/// Between two looks at what another thread will write.
inline void pause_in_loop() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/// Below this many elements a loop ends sooner than a team of threads starts.
inline constexpr std::int64_t elements_worth_threads = 32768;

/// The first index of share `index` when `count` things are dealt to `shares` in contiguous, nearly equal
/// parts.
constexpr std::int64_t share_begin(std::int64_t count, std::int64_t shares, std::int64_t index) {
    return count / shares * index + std::min(index, count % shares);
}

/// The body of one share, compiled once: inlined into the function that GCC makes of a parallel region, loops
/// were seen not to vectorize, and several threads were slower than one.
template <class Body>
[[gnu::noinline]] void run_share(const Body& body, std::int64_t share, std::int64_t begin, std::int64_t end) {
    body(share, begin, end);
}

/// Elements between two offers of progress: 30 to 200 µs of a loop. And things, where each is many elements:
/// a part must not be too narrow for vectors and cache lines.
inline constexpr std::int64_t elements_between_offers = 131072, least_between_offers = 64;

/// body(begin, end) on [begin, end) part by part, with offers of progress between them. For bodies that do
/// the same to each thing whatever the range.
template <class Body>
void run_parts(const Body& body, std::int64_t begin, std::int64_t end, std::int64_t cost) {
    const std::int64_t step =
        std::max(elements_between_offers / std::max<std::int64_t>(cost, 1), least_between_offers);
    for (; end - begin > step; begin += step) {
        run_share([&body](std::int64_t, std::int64_t first, std::int64_t last) { body(first, last); }, 0,
                  begin, begin + step);
        offer_progress();
    }
    run_share([&body](std::int64_t, std::int64_t first, std::int64_t last) { body(first, last); }, 0, begin,
              end);
}

/// While it lives, parallel regions that this thread opens, and what libraries plan, are for one thread,
/// which computes.
class OneThread {
  public:
    OneThread() {
        omp_set_num_threads(1);
        note_computing_thread();
    }
    ~OneThread() { omp_set_num_threads(before_); }
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;

  private:
    const int before_ = omp_get_max_threads();
};

/// Calls call(body, caller, there) at once from `callers` threads, or fewer, `there`, each with its own
/// number from 0 on, which is the calling thread's. Returns when all have ended. Inside, parallel regions
/// have one thread. The call must not throw.
void run_together(int callers, void (*call)(const void* body, int caller, int there), const void* body);

/// The same of body(caller, there), which so is compiled once.
template <class Body>
void run_together(int callers, const Body& body) {
    run_together(
        callers,
        [](const void* of, int caller, int there) { (*static_cast<const Body*>(of))(caller, there); }, &body);
}

/// Calls body(share, begin, end) for `shares` contiguous parts of [0, count), concurrently. The parts do not
/// depend on how many threads there really are.
template <class Body>
void for_shares(std::int64_t count, std::int64_t shares, const Body& body) {
    if (shares == 1) {
        run_share(body, 0, 0, count);
        return offer_progress();
    }
    const int callers = static_cast<int>(std::min<std::int64_t>(shares, omp_get_max_threads()));
    run_together(callers, [&](int caller, int there) {
        for (std::int64_t i = caller; i < shares; i += there)
            run_share(body, i, share_begin(count, shares, i), share_begin(count, shares, i + 1));
    });
    offer_progress();
}

/// Who takes a part.
enum class Taking {
    at_once,      ///< whoever comes first
    after_a_wait  ///< who had it last time, for a while: its data are in that thread's caches
};

/// How long a caller that is done with its own share waits, with Taking::after_a_wait, before it takes what
/// is another's: a quarter of the time that its own took; of short shares, with which others may only have
/// begun later, 20 µs of it. (Where cores share no cache, parts that move to another core and back cost more:
/// far cores took 58 µs for an update that takes 75 where parts move, of 669,706 elements with momentum.)
constexpr std::chrono::nanoseconds patience_after(std::chrono::nanoseconds own) {
    return std::min(own, std::max(own / 4, std::chrono::nanoseconds{20'000}));
}

/// Calls call(body, caller, part) for every part of [0, count) from `callers` threads at once, each with its
/// own number from 0 on, which is the calling thread's. A caller goes through its own contiguous share, then
/// through what others have not begun of theirs: one that the machine holds up holds up nobody for more than
/// a part. So who computes a part is left open; what is computed must not depend on it. Inside body, parallel
/// regions have one thread. Throws the first of what the bodies throw, when all have ended.
void for_parts(std::int64_t count, int callers, void (*call)(const void* body, int caller, std::int64_t part),
               const void* body, Taking taking);

/// The same of body(caller, part), which so is compiled once.
template <class Body>
void for_parts(std::int64_t count, int callers, const Body& body, Taking taking = Taking::at_once) {
    for_parts(
        count, callers,
        [](const void* of, int caller, std::int64_t part) { (*static_cast<const Body*>(of))(caller, part); },
        &body, taking);
}

/// Elements that a thread takes at a time where others may take them over: 10 to 50 µs of a loop.
inline constexpr std::int64_t elements_taken = 32768;

/// Calls body(begin, end) on parts of [0, count), in several threads when count · cost elements are worth it,
/// with offers of progress between parts. Which thread computes what is for_parts' affair.
template <class Body>
void for_ranges(std::int64_t count, const Body& body, std::int64_t cost = 1) {
    const std::int64_t elements = count * cost;
    const std::int64_t threads = elements > elements_worth_threads ? omp_get_max_threads() : 1;
    if (threads == 1) {
        run_parts(body, 0, count, cost);
        return offer_progress();
    }
    // Whole cache lines of the smallest things.
    const std::int64_t unit = cost < 64 ? 64 : 1, units = (count + unit - 1) / unit;
    const std::int64_t turns = std::max<std::int64_t>(elements / (threads * elements_taken), 1);
    const std::int64_t parts = std::min(threads * turns, units);
    for_parts(
        parts, static_cast<int>(threads),
        [&](int, std::int64_t part) {
            run_parts(body, share_begin(units, parts, part) * unit,
                      std::min(share_begin(units, parts, part + 1) * unit, count), cost);
            offer_progress();
        },
        Taking::after_a_wait);
}

/// Calls body(lane) for lane 0, on the calling thread, to lanes − 1 at once. Inside, parallel regions have
/// one thread. Throws the first of what the bodies throw, when all have ended.
template <class Body>
void for_lanes(int lanes, const Body& body) {
    std::exception_ptr failure;
    ThreadTeam::note_library_region();
#pragma omp parallel num_threads(lanes) if (!ThreadTeam::inside())
    {
        const OneThread alone;
        try {
            body(omp_get_thread_num());
        } catch (...) {
#pragma omp critical(tutti_for_lanes)
            if (!failure) failure = std::current_exception();
        }
    }
    if (failure) std::rethrow_exception(failure);
    offer_progress();
}

/// Parts [0, count) in a contiguous share for each caller. `apart`: bytes from one share's counter to the
/// next's; a cache line where callers are busy with their own for long, less where they soon touch all.
template <std::size_t apart>
class Shares {
  public:
    Shares(std::int64_t parts, int callers)
        : parts_(parts), count_(std::clamp(callers, 1, static_cast<int>(most))) {
        for (int s = 0; s < count_; ++s) next_of(s).store(share_begin(s), std::memory_order_relaxed);
    }

    int count() const { return count_; }
    std::int64_t parts() const { return parts_; }
    /// take(part) for what nobody has begun of a share.
    template <class Take>
    void go_through(int share, const Take& take) {
        const std::int64_t end = share_begin(share + 1);
        for (std::int64_t part; (part = next_of(share).fetch_add(1, std::memory_order_relaxed)) < end;)
            take(part);
    }
    bool all_are_begun() const {
        for (int s = 0; s < count_; ++s)
            if (next_of(s).load(std::memory_order_relaxed) < share_begin(s + 1)) return false;
        return true;
    }

  private:
    static constexpr std::size_t most = 64;
    struct alignas(apart) Next {
        std::atomic<std::int64_t> part;
    };
    std::int64_t share_begin(int share) const { return tutti::share_begin(parts_, count_, share); }
    std::atomic<std::int64_t>& next_of(int share) { return next_[static_cast<std::size_t>(share)].part; }
    const std::atomic<std::int64_t>& next_of(int share) const {
        return next_[static_cast<std::size_t>(share)].part;
    }

    std::int64_t parts_;
    int count_;
    std::array<Next, most> next_;
};

/// Parts of work that callers of for_parts_twice go through at once: each its own share, then what others
/// have not begun of theirs.
class DealtParts {
  public:
    DealtParts(std::int64_t count, int callers) : shares_(count, callers) {}

    /// What caller `caller` gets to do; what a body throws is the caller's last.
    template <class Body>
    void take(int caller, const Body& body) {
        attempt([&] {
            for (int turn = 0; turn < shares_.count(); ++turn)
                shares_.go_through((caller + turn) % shares_.count(), [&](std::int64_t part) {
                    body(caller, part);
                    ended_.fetch_add(1, std::memory_order_release);
                });
        });
    }
    /// Calls work(); the first of what is thrown is kept.
    template <class Work>
    void attempt(const Work& work) {
        try {
            work();
        } catch (...) {
#pragma omp critical(tutti_dealt_parts)
            if (!failure_) failure_ = std::current_exception();
            failed_.store(true, std::memory_order_release);
        }
    }
    /// Until all parts have ended: true; or one has thrown.
    bool wait() const {
        // Others are in the midst of their last parts. Where they have no processor, they need this one.
        constexpr int turns_before_yielding = 4096;
        for (int turn = 0; ended_.load(std::memory_order_acquire) < shares_.parts(); ++turn) {
            if (failed_.load(std::memory_order_acquire)) return false;
            if (turn < turns_before_yielding)
                pause_in_loop();
            else
                std::this_thread::yield();
        }
        return true;
    }
    /// What was kept, when all callers are done.
    void rethrow() const {
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    // What callers touch one after the other lies together: a part takes many times as long as a cache line
    // from one core to another, and each line more is one more to wait for.
    alignas(64) std::atomic<std::int64_t> ended_{0};
    std::atomic<bool> failed_{false};
    Shares<alignof(std::atomic<std::int64_t>)> shares_;
    std::exception_ptr failure_;
};

/// for_parts twice, without the end of one team of threads and the start of another between them (some µs,
/// where cores share no cache): second(caller, part) begins when every first(caller, part) has ended. After
/// that the calling thread calls between() before its part in the second, while others are in theirs: so it
/// may read what the first has written, and must touch nothing that the second writes and no scratch that
/// holds the parts. It runs on one thread, as parallel regions in it do.
template <class First, class Between, class Second>
void for_parts_twice(std::int64_t count, int callers, const First& first, const Between& between,
                     const Second& second) {
    DealtParts firsts(count, callers), seconds(count, callers);
    run_together(callers, [&](int caller, int) {
        firsts.take(caller, first);
        if (firsts.wait()) {
            if (caller == 0) seconds.attempt(between);
            seconds.take(caller, second);
        }
    });
    firsts.rethrow();
    seconds.rethrow();
    offer_progress();
}

/// Into how many nearly equal parts (share_begin) work on `items` things of `products` multiplications each
/// is cut, for offers of progress between them: each takes some milliseconds and at least `least_items`
/// things. Sizes and the number of threads decide, and not whether anybody polls: so no bit of a result
/// depends on that. `threads`: how many work on one part.
inline std::int64_t uneven_parts_of(std::int64_t items, std::int64_t products, std::int64_t least_items,
                                    int threads) {
    constexpr std::int64_t worth_a_part = std::int64_t{64} << 20;  // 1 to 3 ms on one core of 2020 to 2025
    const std::int64_t worth = worth_a_part * threads / std::max<std::int64_t>(products, 1);
    return std::max<std::int64_t>(items / std::max<std::int64_t>({worth, least_items, 1}), 1);
}

/// The same for a library's product over rows, which is planned for one number of rows, so that all parts
/// must have as many. `least_items`: rows that the library needs to be fast.
inline std::int64_t parts_of(std::int64_t items, std::int64_t products, std::int64_t least_items,
                             int threads) {
    std::int64_t parts = uneven_parts_of(items, products, least_items, threads);
    while (items % parts != 0) --parts;
    return parts;
}
inline std::int64_t parts_of(std::int64_t items, std::int64_t products, std::int64_t least_items) {
    return parts_of(items, products, least_items, omp_get_max_threads());
}

}  // namespace tutti
