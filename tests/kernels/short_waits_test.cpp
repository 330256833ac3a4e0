// Who waits for others of his team sleeps. OMP_WAIT_POLICY=active, which the build sets for these tests in a
// run of their own, lets threads turn for minutes otherwise.

#include "short_waits.hpp"

#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

namespace tutti {
namespace {

/// 'R', 'S', …: proc(5).
char state_of(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_ends = line.rfind(") ");
    return name_ends == std::string::npos ? '?' : line[name_ends + 2];
}

TEST(ShortWaits, who_waits_for_another_of_the_team_sleeps) {
    if (omp_get_num_procs() > 64) GTEST_SKIP() << "more cores than it fills";
    for (int time = 0; time < 3; ++time) {
        const ShortWaits short_waits(2);
        std::atomic<pid_t> other = 0;
        std::atomic<int> threads = 0;
#pragma omp parallel num_threads(2)
        {
            if (omp_get_thread_num() == 1) {
                other = gettid();
            } else {
                threads = omp_get_num_threads();
                while (threads == 2 && (other == 0 || state_of(other) != 'S')) std::this_thread::yield();
            }
        }
        if (threads != 2) GTEST_SKIP() << "only one thread";
    }
}

TEST(ShortWaits, teams_have_as_many_threads_as_before) {
    const auto threads = [] {
        std::atomic<int> count = 0;
#pragma omp parallel num_threads(3)
        ++count;
        return count.load();
    };
    const int before = threads(), most = omp_get_max_threads();
    {
        const ShortWaits short_waits(3), as_well(1);
        EXPECT_EQ(threads(), before);
        EXPECT_EQ(omp_get_max_threads(), most);
    }
    EXPECT_EQ(threads(), before);
}

}  // namespace
}  // namespace tutti
