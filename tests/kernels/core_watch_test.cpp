// The thread that looks after the cores: what it is told by, and whom it tells.

#include "core_watch.hpp"

#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "computing_threads.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

TEST(ComputingThreads, are_those_that_were_noted_while_they_live) {
    note_computing_thread();
    if (seconds_waited_for_cores().empty()) GTEST_SKIP() << "the system does not tell";
    EXPECT_TRUE(seconds_waited_for_cores().contains(gettid()));
    pid_t other = 0;
    std::thread thread([&] {
        other = gettid();
        EXPECT_FALSE(seconds_waited_for_cores().contains(other));
        note_computing_thread();
        note_computing_thread();
        const auto first = seconds_waited_for_cores(), second = seconds_waited_for_cores();
        ASSERT_TRUE(first.contains(other) && second.contains(other));
        EXPECT_GE(first.at(other), 0);
        EXPECT_GE(second.at(other), first.at(other));
    });
    thread.join();
    EXPECT_FALSE(seconds_waited_for_cores().contains(other));
    EXPECT_TRUE(seconds_waited_for_cores().contains(gettid()));
}

TEST(CoreWatch, says_once_that_a_thread_waits_for_its_core) {
    double waited = 0;
    CoreWatch watch(
        2,
        [&] {
            return std::map<pid_t, double>{{1, waited += 3600}};
        },
        1ms);
    std::promise<std::string> said;
    std::atomic<int> times = 0;
    watch.set_notice([&](const std::string& text) {
        if (times++ == 0) said.set_value(text);
    });
    EXPECT_NE(said.get_future().get().find("wait for their cores"), std::string::npos);
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(times, 1);
}

TEST(CoreWatch, says_nothing_on_cores_of_one_s_own) {
    std::atomic<int> times = 0, windows = 0;
    CoreWatch watch(
        2,
        [&] {
            ++windows;
            return std::map<pid_t, double>{{1, 5.0}};
        },
        1ms);
    watch.set_notice([&](const std::string&) { ++times; });
    while (windows < 50) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(times, 0);
}

TEST(CoreWatch, ends_at_once_with_nobody_to_tell) {
    double waited = 0;
    for (int time = 0; time < 20; ++time)
        const CoreWatch watch(
            2,
            [&] {
                return std::map<pid_t, double>{{1, waited += 3600}};
            },
            100us);
    const CoreWatch of_this_process(2);
}

}  // namespace
}  // namespace tutti
