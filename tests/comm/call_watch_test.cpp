#include "call_watch.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "suspension.hpp"

namespace tutti::test {
namespace {

constexpr std::chrono::milliseconds soon(2);

std::string nobody() {
    return {};
}

/// A clock by which every look is a second after the last one.
auto a_second_a_look() {
    return [seconds = 0.0]() mutable { return seconds += 1; };
}

TEST(CallPulse, each_call_has_a_number_of_its_own_and_there_is_none_outside) {
    CallPulse pulse;
    EXPECT_EQ(pulse.now(), 0U);
    std::vector<std::uint64_t> seen;
    for (int turns = 0; turns < 2; ++turns) {
        CallPulse::Turn turn(&pulse);
        seen.push_back(pulse.now());
        turn.beat();
        seen.push_back(pulse.now());
        {
            const CallPulse::Turn nested(&pulse);
            seen.push_back(pulse.now());
        }
        seen.push_back(pulse.now());
    }
    EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(pulse.now(), 0U);
    CallPulse::Turn(nullptr).beat();
}

TEST(CallWatch, ends_the_process_with_5_where_a_call_does_not_come_back_and_a_peer_has_ended) {
    EXPECT_EXIT(
        {
            CallPulse pulse;
            const CallWatch watch(
                "rank 0 on here", pulse, [] { return "rank 2 on there has ended"; }, soon, a_second_a_look());
            const CallPulse::Turn turn(&pulse);
            for (;;) pause();
        },
        testing::ExitedWithCode(5),
        "error: a call of MPI that does not come back: rank 0 on here waited 5.0 s for its peers: "
        "rank 2 on there has ended; ");
}

TEST(CallWatch, ends_the_process_with_5_at_the_time_out) {
    EXPECT_EXIT(
        {
            CallPulse pulse;
            pulse.set_timeout(7);
            const CallWatch watch("rank 0 on here", pulse, nobody, soon, a_second_a_look());
            const CallPulse::Turn turn(&pulse);
            for (;;) pause();
        },
        testing::ExitedWithCode(5), "rank 0 on here waited 8.0 s for its peers; look for the first error");
}

// The watches below would end this process. What happens between two looks, happens in the clock: a thread of
// its own might not run between them.

TEST(CallWatch, nobody_is_asked_for_while_calls_come_back) {
    CallPulse pulse;
    pulse.set_timeout(0.1);
    CallPulse::Turn turn(&pulse);
    std::atomic<int> looks = 0;
    const CallWatch watch(
        "rank 0 on here", pulse, [] { return "rank 2 on there has ended"; }, soon,
        [&turn, &looks] {
            turn.beat();
            return static_cast<double>(++looks);
        });
    while (looks < 20) std::this_thread::yield();
}

TEST(CallWatch, nobody_is_asked_for_outside_of_calls) {
    CallPulse pulse;
    pulse.set_timeout(0.1);
    std::atomic<int> looks = 0;
    const CallWatch watch(
        "rank 0 on here", pulse, [] { return "rank 2 on there has ended"; }, soon,
        [&looks] { return static_cast<double>(++looks); });
    while (looks < 20) std::this_thread::yield();
}

TEST(CallWatch, time_in_which_the_process_was_suspended_does_not_count) {
    CallPulse pulse;
    pulse.set_timeout(100);
    const CallPulse::Turn turn(&pulse);
    Suspension suspension([looks = 0]() mutable { return ++looks > 3; });
    const CallWatch watch("rank 0 on here", pulse, nobody, soon, suspension.clock());
    suspension.wait_for_looks(4);
}

}  // namespace
}  // namespace tutti::test
