#include "connect_watch.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

namespace tutti::test {
namespace {

TEST(ConnectWatch, ends_the_process_with_5_and_names_who_has_ended) {
    EXPECT_EXIT(
        {
            const ConnectWatch watch("rank 0 on here", [] { return "rank 2 on there has ended"; });
            for (;;) pause();  // as who connects for ever
        },
        testing::ExitedWithCode(5),
        "error: rank 0 on here cannot connect to all ranks: rank 2 on there has ended; ");
}

std::ptrdiff_t threads_of_this_process() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST(ConnectWatch, says_nothing_while_nobody_has_ended_nor_afterwards) {
    const std::ptrdiff_t before = threads_of_this_process();
    std::atomic<int> looks = 0;
    {
        // Who was missing once, and not any more, has not ended.
        const ConnectWatch watch("rank 0 on here", [&] {
            const int look = ++looks;
            looks.notify_one();
            return look == 1 ? "rank 1" : "";
        });
        for (int seen = looks; seen < 9; seen = looks) looks.wait(seen);
    }
    // Nobody looks any more; /proc may show a thread for a moment after its end.
    while (threads_of_this_process() > before) std::this_thread::yield();
}

}  // namespace
}  // namespace tutti::test
