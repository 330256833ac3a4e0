#pragma once
// Items of work that threads go through in rounds.

#include "parallel.hpp"

namespace tutti {

/// Calls body(share, item) for all items [0, count), each of so many multiplications: threads take an item
/// each in a round, and after some rounds, which take some milliseconds, progress is offered. A share below
/// `threads` has one caller at a time; what is computed must not depend on which.
template <class Body>
void for_rounds(std::int64_t count, std::int64_t products, std::int64_t threads, const Body& body) {
    const std::int64_t rounds = (count + threads - 1) / threads;
    const std::int64_t parts = uneven_parts_of(rounds, threads * products, 1, static_cast<int>(threads));
    for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t first = share_begin(rounds, parts, part) * threads;
        const std::int64_t items = std::min(share_begin(rounds, parts, part + 1) * threads, count) - first;
        for_shares(items, std::min(items, threads),
                   [&body, first](std::int64_t share, std::int64_t begin, std::int64_t end) {
                       for (std::int64_t item = first + begin; item < first + end; ++item) body(share, item);
                   });
    }
}

}  // namespace tutti
