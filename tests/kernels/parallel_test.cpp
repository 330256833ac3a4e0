// Parts that threads take, each of its own, and from each other.

#include "parallel.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace tutti {
namespace {

class ForParts : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Callers, ForParts, testing::Values(1, 2, 3, 70), testing::PrintToStringParamName());

TEST_P(ForParts, each_part_is_computed_once_and_by_callers_with_numbers_of_their_own) {
    for (const std::int64_t count : {0, 1, 2, 7, 100}) {
        std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
        std::vector<std::atomic<int>> inside(static_cast<std::size_t>(GetParam()));
        std::atomic<int> wrong = 0;
        for_parts(count, GetParam(), [&](int caller, std::int64_t part) {
            auto& mine = inside[static_cast<std::size_t>(caller)];
            wrong += mine.exchange(1);
            ++times[static_cast<std::size_t>(part)];
            mine = 0;
        });
        EXPECT_EQ(wrong, 0);
        for (const auto& one : times) EXPECT_EQ(one, 1);
    }
}

// The caller that runs first waits until the others have done all the rest, its own share but one part, too.
TEST_P(ForParts, nobody_waits_for_a_caller_that_is_held_up) {
    constexpr std::int64_t count = 140;
    std::atomic<int> callers = 0;
    std::atomic<std::int64_t> done = 0;
    std::atomic<bool> taken = false;
    const OneThread alone;  // which for_parts does not ask
#pragma omp parallel num_threads(GetParam())
#pragma omp single
    callers = omp_get_num_threads();
    if (callers < 2) GTEST_SKIP() << "only one thread";
    for_parts(count, GetParam(), [&](int, std::int64_t) {
        if (!taken.exchange(true))
            while (done < count - 1) {
#pragma omp taskyield
            }
        ++done;
    });
    EXPECT_EQ(done, count);
}

TEST_P(ForParts, regions_inside_have_one_thread_and_those_behind_as_many_as_before) {
    const int before = omp_get_max_threads();
    std::atomic<int> others = 0;
    for_parts(8, GetParam(), [&](int, std::int64_t) {
        if (omp_get_max_threads() != 1) ++others;
    });
    EXPECT_EQ(others, 0);
    EXPECT_EQ(omp_get_max_threads(), before);
}

TEST_P(ForParts, what_a_part_throws_leaves_it) {
    EXPECT_THROW(for_parts(9, GetParam(),
                           [](int, std::int64_t part) {
                               if (part == 5) throw std::runtime_error("part 5");
                           }),
                 std::runtime_error);
}

}  // namespace
}  // namespace tutti
