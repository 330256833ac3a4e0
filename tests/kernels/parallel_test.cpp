// Parts that threads take, each of its own, and from each other.

#include "parallel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tutti {
namespace {

class ForParts : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Callers, ForParts, testing::Values(1, 2, 3, 70), testing::PrintToStringParamName());

TEST_P(ForParts, each_part_is_computed_once_and_by_callers_with_numbers_of_their_own) {
    for (const Taking taking : {Taking::at_once, Taking::after_a_wait})
        for (const std::int64_t count : {0, 1, 2, 7, 100}) {
            std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
            std::vector<std::atomic<int>> inside(static_cast<std::size_t>(GetParam()));
            std::atomic<int> wrong = 0;
            const auto note = [&](int caller, std::int64_t part) {
                auto& mine = inside[static_cast<std::size_t>(caller)];
                wrong += mine.exchange(1);
                ++times[static_cast<std::size_t>(part)];
                mine = 0;
            };
            for_parts(count, GetParam(), note, taking);
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
    const auto work = [&](int, std::int64_t) {
        if (!taken.exchange(true))
            while (done < count - 1) {
#pragma omp taskyield
            }
        ++done;
    };
    for (const Taking taking : {Taking::at_once, Taking::after_a_wait}) {
        done = 0;
        taken = false;
        for_parts(count, GetParam(), work, taking);
        EXPECT_EQ(done, count);
    }
}

TEST(PatienceAfter, is_a_quarter_of_long_shares_and_no_longer_than_short_ones) {
    using std::chrono::microseconds;
    EXPECT_EQ(patience_after(microseconds{0}), microseconds{0});
    EXPECT_EQ(patience_after(microseconds{7}), microseconds{7});
    EXPECT_EQ(patience_after(microseconds{30}), microseconds{20});
    EXPECT_EQ(patience_after(microseconds{400}), microseconds{100});
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

class ForRanges : public testing::TestWithParam<int> {
  protected:
    void SetUp() override { omp_set_num_threads(GetParam()); }
    void TearDown() override { omp_set_num_threads(before_); }

  private:
    const int before_ = omp_get_max_threads();
};
INSTANTIATE_TEST_SUITE_P(Threads, ForRanges, testing::Values(1, 2, 3, 70), testing::PrintToStringParamName());

TEST_P(ForRanges, covers_each_thing_once) {
    for (const std::int64_t cost : {1, 63, 64, 100000})
        for (const std::int64_t count : {0, 1, 3, 63, 64, 65, 1000, 300001}) {
            std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
            for_ranges(
                count,
                [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) ++times[static_cast<std::size_t>(i)];
                },
                cost);
            EXPECT_TRUE(std::ranges::all_of(times, [](const auto& one) { return one == 1; }))
                << count << " things of cost " << cost;
        }
}

TEST_P(ForRanges, no_range_begins_within_another_s_cache_line) {
    std::atomic<int> within = 0;
    for_ranges(1'000'003, [&](std::int64_t begin, std::int64_t) { within += begin % 64 != 0; });
    EXPECT_EQ(within, 0);
}

TEST_P(ForRanges, nobody_waits_for_a_thread_that_is_held_up) {
    if (GetParam() == 1) GTEST_SKIP() << "only one thread";
    constexpr std::int64_t count = 64;
    std::atomic<std::int64_t> done = 0;
    std::atomic<bool> taken = false;
    for_ranges(
        count,
        [&](std::int64_t begin, std::int64_t end) {
            if (!taken.exchange(true)) {
                while (done < count - (end - begin)) std::this_thread::yield();
            }
            done += end - begin;
        },
        elements_taken);
    EXPECT_EQ(done, count);
}

class ForPartsTwice : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Callers, ForPartsTwice, testing::Values(1, 2, 3, 70),
                         testing::PrintToStringParamName());

TEST_P(ForPartsTwice, a_second_part_sees_what_all_first_ones_wrote) {
    for (const std::int64_t count : {1, 2, 7, 100}) {
        std::vector<std::int64_t> written(static_cast<std::size_t>(count),
                                          0);  // not atomic: others must wait
        std::vector<std::int64_t> sums(static_cast<std::size_t>(count), 0);
        std::atomic<int> between = 0, between_by_others = 0;
        const auto caller_of_all = std::this_thread::get_id();
        for_parts_twice(
            count, GetParam(),
            [&](int, std::int64_t part) { written[static_cast<std::size_t>(part)] += part + 1; },
            [&] {
                ++between;
                between_by_others += std::this_thread::get_id() != caller_of_all;
            },
            [&](int, std::int64_t part) {
                for (const std::int64_t one : written) sums[static_cast<std::size_t>(part)] += one;
            });
        EXPECT_EQ(sums, std::vector<std::int64_t>(static_cast<std::size_t>(count), count * (count + 1) / 2));
        EXPECT_EQ(between, 1);
        EXPECT_EQ(between_by_others, 0);
    }
}

TEST_P(ForPartsTwice, what_is_thrown_leaves_it_and_no_caller_waits_for_ever) {
    const auto nothing = [](int, std::int64_t) {};
    const auto fails = [](int, std::int64_t part) {
        if (part == 5) throw std::runtime_error("part 5");
    };
    std::atomic<int> later = 0;
    EXPECT_THROW(for_parts_twice(
                     9, GetParam(), fails, [&] { ++later; }, [&](int, std::int64_t) { ++later; }),
                 std::runtime_error);
    EXPECT_EQ(later, 0);
    EXPECT_THROW(for_parts_twice(
                     9, GetParam(), nothing, [] {}, fails),
                 std::runtime_error);
    EXPECT_THROW(for_parts_twice(
                     9, GetParam(), nothing, [] { throw std::runtime_error("between"); }, nothing),
                 std::runtime_error);
}

}  // namespace
}  // namespace tutti
