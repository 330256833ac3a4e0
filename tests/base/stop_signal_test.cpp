#include "tutti/base/stop_signal.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <future>
#include <initializer_list>
#include <thread>

namespace tutti {
namespace {

TEST(StopSignal, NothingIsPendingAtFirst) {
    const StopSignal signals;
    EXPECT_EQ(StopSignal::pending(), 0);
    EXPECT_LT(StopSignal::seconds_since_term(), 0);
}

TEST(StopSignal, NotesThePreemptionSignal) {
    const StopSignal signals;
    raise(SIGUSR1);
    EXPECT_EQ(StopSignal::pending(), SIGUSR1);
    EXPECT_LT(StopSignal::seconds_since_term(), 0);
}

/// Whether `act` ends the wait of another thread, which is left behind where it does not.
bool ends_a_wait(const std::function<void()>& act) {
    std::promise<void> over;
    std::future<void> ended = over.get_future();
    std::thread([over = std::move(over)]() mutable {
        StopSignal::wait();
        over.set_value();
    }).detach();
    act();
    return ended.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
}

TEST(StopSignal, EndsTheWaitOfAThreadBesideTheWork) {
    const StopSignal signals;
    EXPECT_TRUE(ends_a_wait([] { std::raise(SIGTERM); }));
    EXPECT_EQ(StopSignal::pending(), SIGTERM);
    EXPECT_TRUE(ends_a_wait([] { StopSignal::wake(); }));
}

TEST(StopSignal, IsNotedOnAStackOfItsOwn) {
    std::signal(SIGHUP, SIG_DFL);  // nohup may run the tests, too
    const StopSignal signals;
    stack_t stack{};
    ASSERT_EQ(sigaltstack(nullptr, &stack), 0);
    EXPECT_EQ(stack.ss_flags & SS_DISABLE, 0);
    for (const int number : {SIGUSR1, SIGTERM, SIGINT, SIGHUP}) {
        struct sigaction action {};
        ASSERT_EQ(sigaction(number, nullptr, &action), 0);
        EXPECT_NE(action.sa_flags & SA_ONSTACK, 0) << number;
    }
}

TEST(StopSignal, NotesThatTheTerminalIsGoneUnlessNohupHasItIgnored) {
    std::signal(SIGHUP, SIG_DFL);
    {
        const StopSignal signals;
        std::raise(SIGHUP);
        EXPECT_EQ(StopSignal::pending(), SIGHUP);
    }
    EXPECT_EXIT(std::raise(SIGHUP), testing::KilledBySignal(SIGHUP), "");
    std::signal(SIGHUP, SIG_IGN);
    {
        const StopSignal signals;
        std::raise(SIGHUP);
        EXPECT_EQ(StopSignal::pending(), 0);
    }
    EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_IGN);
}

TEST(StopSignal, NotesWhenTermCame) {
    const StopSignal signals;
    raise(SIGTERM);
    EXPECT_EQ(StopSignal::pending(), SIGTERM);
    EXPECT_GE(StopSignal::seconds_since_term(), 0);
}

TEST(StopSignal, ANewOneForgetsTheOld) {
    {
        const StopSignal signals;
        raise(SIGTERM);
    }
    const StopSignal signals;
    EXPECT_EQ(StopSignal::pending(), 0);
}

TEST(StopSignal, APreemptionNoticeAfterTheEndIsIgnored) {
    { const StopSignal signals; }
    raise(SIGUSR1);
    const StopSignal signals;
    EXPECT_EQ(StopSignal::pending(), 0);
}

TEST(StopSignal, APreemptionNoticeDuringTheStartIsNoted) {
    hold_preemption_notice();
    raise(SIGUSR1);
    const StopSignal signals;
    EXPECT_EQ(StopSignal::pending(), SIGUSR1);
}

/// Ends with 75 where none of `numbers` ends it before: while there is a StopSignal and after it.
void leave_with_75(std::initializer_list<int> numbers) {
    {
        const StopSignal signals;
        keep_exit_code(75);
        for (const int number : numbers) std::raise(number);
    }
    for (const int number : numbers) std::raise(number);
    std::_Exit(75);
}

TEST(StopSignal, TermDoesNotChangeAnExitCodeThatIsKnown) {
    EXPECT_EXIT(leave_with_75({SIGTERM, SIGUSR1}), testing::ExitedWithCode(75), "");
    EXPECT_EXIT(leave_with_75({SIGINT}), testing::KilledBySignal(SIGINT), "");
    EXPECT_EXIT((keep_exit_code(2), std::raise(SIGTERM), std::_Exit(2)), testing::ExitedWithCode(2), "");
}

TEST(StopSignal, TermEndsWithTheCodeWhatHangsWhenAllIsWritten) {
    const auto hang = [](bool in_time) {
        {
            const StopSignal signals;
            if (in_time) keep_exit_code(75);
        }
        if (!in_time) keep_exit_code(75);
        leave_on_term();
        std::raise(SIGTERM);
        for (;;) pause();
    };
    EXPECT_EXIT(hang(true), testing::ExitedWithCode(75), "");
    EXPECT_EXIT(hang(false), testing::ExitedWithCode(75), "");
    EXPECT_EXIT((leave_on_term(), std::raise(SIGTERM)), testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignal, TermLeavesTimeToEndInGoodOrderWhenAllIsWritten) {
    const auto end = [] {
        keep_exit_code(75);
        leave_on_term();
        std::raise(SIGTERM);
        std::raise(SIGTERM);
        std::_Exit(6);
    };
    EXPECT_EXIT(end(), testing::ExitedWithCode(6), "");
}

TEST(StopSignal, TermIsNotedByANewOneAfterACodeWasKnown) {
    EXPECT_EXIT(
        {
            keep_exit_code(4);
            const StopSignal signals;
            std::raise(SIGTERM);
            std::_Exit(StopSignal::pending());
        },
        testing::ExitedWithCode(SIGTERM), "");
}

}  // namespace
}  // namespace tutti
