// When cores count as shared, and what is said of it.

#include "shared_cores.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

/// Windows of half a second in each of which threads 1 and 2 wait for such shares of it.
class Windows {
  public:
    bool after(double first, double second) {
        waited_[1] += first * seconds;
        waited_[2] += second * seconds;
        return cores.after_window(waited_, seconds);
    }
    SharedCores cores;

  private:
    static constexpr double seconds = 0.5;
    std::map<pid_t, double> waited_{{1, 7.0}, {2, 0.0}};
};

TEST(SharedCores, waits_before_the_first_window_do_not_count) {
    SharedCores cores;
    EXPECT_FALSE(cores.after_window({{1, 100.0}}, 0.5));
    EXPECT_FALSE(cores.after_window({{1, 100.0}, {2, 100.0}}, 0.5));
    EXPECT_FALSE(cores.after_window({{1, 100.0}, {2, 100.4}}, 0.5));
    EXPECT_TRUE(cores.after_window({{1, 100.0}, {2, 100.8}}, 0.5));
}

TEST(SharedCores, one_thread_that_waits_much_is_enough) {
    Windows windows;
    EXPECT_FALSE(windows.after(0, 0));
    EXPECT_FALSE(windows.after(0.25, 0.25));
    EXPECT_FALSE(windows.after(0, 0.4));
    EXPECT_FALSE(windows.after(0.25, 0.25)) << "a visit";
    EXPECT_FALSE(windows.after(0, 0.4));
    EXPECT_TRUE(windows.after(0.4, 0));
}

TEST(SharedCores, until_nobody_has_waited_for_some_windows_in_a_row) {
    Windows windows;
    windows.after(0, 0);
    windows.after(0.7, 0.6);
    ASSERT_TRUE(windows.after(0.7, 0.6));
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(windows.after(0.2, 0));  // little enough only for who is not
    for (int i = 1; i < SharedCores::windows_alone; ++i) EXPECT_TRUE(windows.after(0.1, 0));
    EXPECT_TRUE(windows.after(0.2, 0));
    for (int i = 1; i < SharedCores::windows_alone; ++i) EXPECT_TRUE(windows.after(0.1, 0));
    EXPECT_FALSE(windows.after(0.1, 0));
    EXPECT_FALSE(windows.after(0.2, 0));
    EXPECT_FALSE(windows.after(0.4, 0));
    EXPECT_TRUE(windows.after(0.4, 0));
}

TEST(SharedCores, a_thread_that_ends_and_one_that_begins_are_no_wait) {
    SharedCores cores;
    cores.after_window({{1, 3.0}, {2, 5.0}}, 0.5);
    EXPECT_FALSE(cores.after_window({{1, 3.0}}, 0.5));
    EXPECT_FALSE(cores.after_window({{1, 3.0}, {2, 9.0}}, 0.5));
    EXPECT_FALSE(cores.after_window({}, 0.5));
}

TEST(SharedCores, says_so_once_when_it_lasts_with_the_mean_share) {
    Windows windows;
    windows.after(0, 0);
    for (int i = 1; i < SharedCores::windows_shared; ++i) windows.after(0.4, 0.6);
    for (int i = 1; i < SharedCores::windows_worth_saying; ++i) {
        windows.after(0.4, 0.6);
        EXPECT_FALSE(windows.cores.worth_saying());
    }
    windows.after(0.3, 0);
    const auto share = windows.cores.worth_saying();
    ASSERT_TRUE(share);
    constexpr int all = SharedCores::windows_worth_saying;
    EXPECT_NEAR(*share, ((all - 1) * 0.6 + 0.3) / all, 1e-12);
    for (int i = 0; i < 20; ++i) {
        windows.after(0.5, 0.5);
        EXPECT_FALSE(windows.cores.worth_saying());
    }
}

TEST(SharedCores, visits_are_not_worth_saying) {
    Windows windows;
    windows.after(0, 0);
    for (int i = 0; i < 10; ++i) {
        windows.after(0.9, 0);
        EXPECT_TRUE(windows.after(0.9, 0));
        for (int alone = 0; alone < SharedCores::windows_alone; ++alone) windows.after(0, 0);
        EXPECT_FALSE(windows.cores.worth_saying());
    }
}

TEST(SharedCores, what_costs_little_in_the_mean_is_not_worth_saying) {
    Windows windows;
    windows.after(0, 0);
    windows.after(0.35, 0);
    ASSERT_TRUE(windows.after(0.35, 0));
    for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(windows.after(0.2, 0));
        EXPECT_FALSE(windows.cores.worth_saying());
    }
}

}  // namespace
}  // namespace tutti
