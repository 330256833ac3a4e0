#include "tutti/base/program_time.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

namespace tutti {
namespace {

TEST(ProgramTime, grows_as_other_clocks_do) {
    const auto clock = std::chrono::steady_clock::now();
    const double before = seconds_since_start();
    double after = before;
    while (after - before < 0.02) after = seconds_since_start();
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - clock).count();
    EXPECT_GE(passed, after - before);
    EXPECT_GE(before, 0);
}

TEST(ProgramTime, begins_before_it_is_first_asked) {
    // Bounded by this process's own time: the system has not started it before it booted, nor after a
    // moment that is already past. The clock ticks every 0.01 s.
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    EXPECT_LE(seconds_since_start(), static_cast<double>(now.tv_sec) + 1);
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    EXPECT_GE(seconds_since_start() + 0.01, 1e-9 * static_cast<double>(used.tv_nsec));
}

}  // namespace
}  // namespace tutti
