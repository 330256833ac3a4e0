#include "tutti/base/stop_signal.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <csignal>
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

TEST(StopSignal, EndsTheWaitOfAThreadBesideTheWork) {
    const StopSignal signals;
    std::thread waits([] { StopSignal::wait(); });
    std::raise(SIGTERM);
    waits.join();
    EXPECT_EQ(StopSignal::pending(), SIGTERM);
    StopSignal::wake();
    StopSignal::wait();
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

}  // namespace
}  // namespace tutti
