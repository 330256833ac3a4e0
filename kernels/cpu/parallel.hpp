#pragma once
// How loops are cut among OpenMP threads: always into the same ranges for the same number of threads, so that
// sums that are combined range by range have the same bits in every run.

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace tutti {

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

/// Calls body(share, begin, end) for `shares` contiguous parts of [0, count), concurrently. The parts do not
/// depend on how many threads OpenMP really provides.
template <class Body>
void for_shares(std::int64_t count, std::int64_t shares, const Body& body) {
    if (shares == 1) return run_share(body, 0, 0, count);
#pragma omp parallel for schedule(static, 1)
    for (std::int64_t i = 0; i < shares; ++i)
        run_share(body, i, share_begin(count, shares, i), share_begin(count, shares, i + 1));
}

/// Calls body(begin, end) on parts of [0, count), in several threads when count · cost elements are worth it.
template <class Body>
void for_ranges(std::int64_t count, const Body& body, std::int64_t cost = 1) {
    const std::int64_t shares = count * cost > elements_worth_threads ? omp_get_max_threads() : 1;
    for_shares(count, shares,
               [&body](std::int64_t, std::int64_t begin, std::int64_t end) { body(begin, end); });
}

}  // namespace tutti
