#include "wall_time.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

/// After updates of 1 s from second 10 on; the last call was at second 10 + updates.
WallTime after_updates(double limit, int updates) {
    WallTime time(limit);
    for (int update = 0; update <= updates; ++update) time.before_update(10 + update);
    return time;
}

TEST(WallTime, leaves_time_for_two_updates_and_the_checkpoint) {
    WallTime time = after_updates(100, 3);
    time.saved(2);
    // 1.25 x (1 + 1 + 2) + 0.5 = 5.5
    EXPECT_FALSE(time.is_over(94.4, {}));
    EXPECT_TRUE(time.is_over(94.6, {}));
}

TEST(WallTime, leaves_time_for_what_follows_the_next_update) {
    WallTime time = after_updates(100, 3);
    time.saved(2);
    time.evaluated(8);
    // 1.25 x (1 + 8 + 2 + 1 + 2) + 0.5 = 18
    EXPECT_FALSE(time.is_over(81.9, {.evaluates = true, .saves = true}));
    EXPECT_TRUE(time.is_over(82.1, {.evaluates = true, .saves = true}));
    // The last update has no other after it: 1.25 x (1 + 8 + 2) + 0.5 = 14.25
    EXPECT_FALSE(time.is_over(85.7, {.evaluates = true, .last = true}));
    EXPECT_TRUE(time.is_over(85.8, {.evaluates = true, .last = true}));
}

TEST(WallTime, takes_an_evaluation_for_so_many_updates_until_one_was_measured) {
    WallTime time = after_updates(100, 3);
    // 1.25 x (1 + 4 x 1 + 1) + 0.5 = 8
    EXPECT_FALSE(time.is_over(91.9, {.evaluates = true, .updates_per_evaluation = 4}));
    EXPECT_TRUE(time.is_over(92.1, {.evaluates = true, .updates_per_evaluation = 4}));
    time.evaluated(2);
    EXPECT_FALSE(time.is_over(94.4, {.evaluates = true, .updates_per_evaluation = 4}));
}

TEST(WallTime, takes_an_evaluation_for_usual_updates_and_not_for_the_slow_first_one) {
    WallTime time(1000);
    time.before_update(0);
    for (int update = 0; update < 3; ++update) time.before_update(20 + update);  // 20 s, 1 s, 1 s
    // 1.25 x (20 + 100 x 1 + 20) + 0.5 = 175.5
    EXPECT_FALSE(time.is_over(824, {.evaluates = true, .updates_per_evaluation = 100}));
    EXPECT_TRUE(time.is_over(825, {.evaluates = true, .updates_per_evaluation = 100}));
}

TEST(WallTime, counts_checkpoints_and_evaluations_not_as_updates) {
    WallTime time = after_updates(100, 1);
    time.saved(3);
    time.evaluated(4);
    time.before_update(19);  // 8 s, of them 7 for these
    // 1.25 x (1 + 1 + 3) + 0.5 = 6.75
    EXPECT_FALSE(time.is_over(93.2, {}));
    EXPECT_TRUE(time.is_over(93.3, {}));
}

TEST(WallTime, forgets_a_slow_update_after_32_others) {
    WallTime time(100);
    time.before_update(0);
    time.before_update(5);
    for (int update = 1; update <= 31; ++update) time.before_update(5 + update);
    EXPECT_TRUE(time.is_over(90, {}));  // 1.25 x (5 + 5) + 0.5
    time.before_update(37);
    EXPECT_FALSE(time.is_over(90, {}));
}

TEST(WallTime, wants_one_checkpoint_to_measure_when_half_of_the_time_is_over) {
    WallTime time(100);
    EXPECT_FALSE(time.wants_checkpoint(49));
    EXPECT_TRUE(time.wants_checkpoint(51));
    time.saved(1);
    EXPECT_FALSE(time.wants_checkpoint(51));
}

TEST(WallTime, of_no_time_is_over_before_the_first_update) {
    EXPECT_TRUE(WallTime(0.4).is_over(0, {}));
}

}  // namespace
}  // namespace tutti
