#include "thread_rounds.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <vector>

namespace tutti::test {
namespace {

TEST(ThreadRounds, each_item_is_taken_once_and_a_share_has_one_caller_at_a_time) {
    const int before = omp_get_max_threads();
    for (const std::int64_t threads : {1, 3})
        for (const std::int64_t count : {0, 1, 2, 3, 7, 64})
            for (const std::int64_t products : {1, 1 << 25, 1 << 28}) {
                omp_set_num_threads(static_cast<int>(threads));
                std::vector<std::atomic<int>> taken(static_cast<std::size_t>(count)), callers(3);
                std::atomic<bool> shared = false;
                for_rounds(count, products, threads, [&](std::int64_t share, std::int64_t item) {
                    if (share >= threads || ++callers.at(static_cast<std::size_t>(share)) > 1) shared = true;
                    ++taken.at(static_cast<std::size_t>(item));
                    --callers.at(static_cast<std::size_t>(share));
                });
                EXPECT_FALSE(shared);
                for (const auto& times : taken) EXPECT_EQ(times, 1) << count << " of " << products;
            }
    omp_set_num_threads(before);
}

TEST(ThreadRounds, progress_is_offered_between_rounds_that_take_long) {
    int polls = 0;
    set_host_progress([&polls] { ++polls; });
    const auto sleep = [](std::int64_t, std::int64_t) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // polls are half of that apart at least
    };
    for_rounds(6, std::int64_t{1} << 26, 2, sleep);
    EXPECT_EQ(polls, 3);
    for_rounds(6, 1, 2, sleep);
    EXPECT_EQ(polls, 4);
    set_host_progress({});
}

}  // namespace
}  // namespace tutti::test
