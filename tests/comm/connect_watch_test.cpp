#include "connect_watch.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tutti::test {
namespace {

[[noreturn]] void connect_for_ever() {
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

TEST(ConnectWatch, ends_the_process_with_5_and_names_who_has_ended) {
    EXPECT_EXIT(
        {
            const ConnectWatch watch("rank 0 on here", [] { return "rank 2 on there has ended"; });
            connect_for_ever();
        },
        testing::ExitedWithCode(5),
        "error: rank 0 on here cannot connect to all ranks: rank 2 on there has ended; ");
}

TEST(ConnectWatch, says_nothing_while_nobody_has_ended_nor_afterwards) {
    std::atomic<int> looks = 0;
    {
        // Who was missing once, and not any more, has not ended.
        const ConnectWatch watch("rank 0 on here", [&] { return ++looks == 1 ? "rank 1" : ""; });
        while (looks < 9) std::this_thread::yield();
    }
    const int then = looks;
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    EXPECT_EQ(looks, then);
}

}  // namespace
}  // namespace tutti::test
