#pragma once
// How loops are cut among OpenMP threads: always into the same ranges for the same number of threads, so that
// sums that are combined range by range have the same bits in every run.

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "host_progress.hpp"

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

/// Calls body(share, begin, end) for `shares` contiguous parts of [0, count), concurrently. The parts do not
/// depend on how many threads OpenMP really provides.
template <class Body>
void for_shares(std::int64_t count, std::int64_t shares, const Body& body) {
    if (shares == 1) {
        run_share(body, 0, 0, count);
        return offer_progress();
    }
#pragma omp parallel for schedule(static, 1)
    for (std::int64_t i = 0; i < shares; ++i)
        run_share(body, i, share_begin(count, shares, i), share_begin(count, shares, i + 1));
    offer_progress();
}

/// Calls body(begin, end) on parts of [0, count), in several threads when count · cost elements are worth it,
/// with offers of progress between parts.
template <class Body>
void for_ranges(std::int64_t count, const Body& body, std::int64_t cost = 1) {
    const std::int64_t shares = count * cost > elements_worth_threads ? omp_get_max_threads() : 1;
    for_shares(count, shares, [&body, cost](std::int64_t, std::int64_t begin, std::int64_t end) {
        run_parts(body, begin, end, cost);
    });
}

/// Into how many equal parts a library's product over `items` rows of `products` multiplications each is cut,
/// for offers of progress between them: each takes some milliseconds and at least `least_items` rows, of
/// which the library needs many to be fast. Sizes and the number of threads decide, and not whether anybody
/// polls: so no bit of a result depends on that.
inline std::int64_t parts_of(std::int64_t items, std::int64_t products, std::int64_t least_items) {
    constexpr std::int64_t worth_a_part = std::int64_t{64} << 20;  // 1 to 3 ms on one core of 2020 to 2025
    const std::int64_t worth = worth_a_part * omp_get_max_threads() / std::max<std::int64_t>(products, 1);
    std::int64_t parts = std::max<std::int64_t>(items / std::max<std::int64_t>({worth, least_items, 1}), 1);
    while (items % parts != 0) --parts;
    return parts;
}

}  // namespace tutti
