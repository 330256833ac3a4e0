#include "deadline.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(deadline, passes_after_its_seconds_of_waiting) {
    double now = 1000;
    WaitClock clock([&] { return now; });
    const Deadline deadline(clock, 1.5);
    now += 1;
    EXPECT_DOUBLE_EQ(deadline.left(), 0.5);
    EXPECT_FALSE(deadline.passed());
    now += 0.75;
    EXPECT_DOUBLE_EQ(deadline.left(), -0.25);
    EXPECT_TRUE(deadline.passed());
}

TEST(deadline, time_without_a_look_counts_for_a_second) {
    double now = 1000;
    WaitClock clock([&] { return now; });
    const Deadline deadline(clock, 2.5);
    now += 3600;
    EXPECT_DOUBLE_EQ(deadline.left(), 1.5);
    // Who looks by another deadline has looked.
    const Deadline other(clock, 10);
    for (int i = 0; i < 4; ++i) {
        now += 0.5;
        EXPECT_FALSE(other.passed());
    }
    EXPECT_TRUE(deadline.passed());
}

TEST(deadline, others_are_made_of_it) {
    double now = 1000;
    WaitClock clock([&] { return now; });
    const Deadline deadline(clock, 1);
    now += 0.5;
    EXPECT_DOUBLE_EQ(deadline.or_within(0.25).left(), 0.25);
    EXPECT_DOUBLE_EQ(deadline.or_within(2).left(), 0.5);
    EXPECT_DOUBLE_EQ(deadline.later(3).left(), 3.5);
}

}  // namespace
}  // namespace tutti
