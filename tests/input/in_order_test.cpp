#include "input/in_order.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>

namespace tutti {
namespace {

void no_look() {}

class InOrderOf : public testing::TestWithParam<int> {};

TEST_P(InOrderOf, ResultsComeInOrder) {
    constexpr std::size_t count = 1000;
    InOrder<std::unique_ptr<std::size_t>> work(
        count, GetParam(), [](std::size_t i) { return std::make_unique<std::size_t>(i * i); });
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(*work.next(no_look), i * i);
}

TEST_P(InOrderOf, WhatIsThrownComesInItsPlaceAndTheRestAfterIt) {
    InOrder<int> work(20, GetParam(), [](std::size_t i) {
        if (i % 7 == 3) throw std::runtime_error(std::to_string(i));
        return static_cast<int>(i);
    });
    for (int i = 0; i < 20; ++i) {
        if (i % 7 != 3) {
            EXPECT_EQ(work.next(no_look), i);
            continue;
        }
        try {
            work.next(no_look);
            ADD_FAILURE() << i << " came";
        } catch (const std::runtime_error& error) {
            EXPECT_EQ(error.what(), std::to_string(i));
        }
    }
}

TEST_P(InOrderOf, WhatIsNotTakenIsLeftAndNotMuchOfIt) {
    std::atomic<std::size_t> made = 0;
    {
        InOrder<std::size_t> work(1000, GetParam(), [&made](std::size_t i) {
            ++made;
            return i;
        });
        for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(work.next(no_look), i);
    }
    EXPECT_GE(made, 3U);
    EXPECT_LE(made, 3U + 2 * static_cast<std::size_t>(GetParam()));
}

TEST_P(InOrderOf, AllThreadsWorkAtOnce) {
    const auto threads = static_cast<std::size_t>(GetParam());
    std::latch all(GetParam());
    InOrder<std::size_t> work(threads, GetParam(), [&all](std::size_t i) {
        all.arrive_and_wait();
        return i;
    });
    for (std::size_t i = 0; i < threads; ++i) EXPECT_EQ(work.next(no_look), i);
}

INSTANTIATE_TEST_SUITE_P(Threads, InOrderOf, testing::Values(1, 2, 5), testing::PrintToStringParamName());

TEST(InOrder, WhatLookThrowsEndsTheWaitingAndLosesNothing) {
    std::latch stopped(1);
    InOrder<int> work(1, 2, [&stopped](std::size_t) {
        stopped.wait();
        return 7;
    });
    int looks = 0;
    EXPECT_THROW(work.next([&looks] {
        if (++looks == 3) throw std::runtime_error("stop");
    }),
                 std::runtime_error);
    stopped.count_down();
    EXPECT_EQ(work.next(no_look), 7);
}

TEST(InOrder, NothingIsMadeOfNothing) {
    const InOrder<int> work(0, 3, [](std::size_t) -> int { throw std::logic_error("called"); });
}

}  // namespace
}  // namespace tutti
