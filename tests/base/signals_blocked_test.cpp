#include "tutti/base/signals_blocked.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace tutti {
namespace {

bool is_blocked(int signal) {
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, nullptr, &now);
    return sigismember(&now, signal) == 1;
}

TEST(SignalsBlocked, ForThreadsThatAreStartedMeanwhileAndNobodyElse) {
    ASSERT_FALSE(is_blocked(SIGTERM));
    bool of_thread = false, own = true;
    std::thread thread;
    {
        const SignalsBlocked blocked{SIGSEGV};
        EXPECT_TRUE(is_blocked(SIGTERM));
        EXPECT_FALSE(is_blocked(SIGSEGV));
        thread = std::thread([&] {
            of_thread = is_blocked(SIGTERM);
            own = is_blocked(SIGSEGV);
        });
    }
    EXPECT_FALSE(is_blocked(SIGTERM));
    thread.join();
    EXPECT_TRUE(of_thread);
    EXPECT_FALSE(own);
}

TEST(SignalsBlocked, TheMaskComesBackWhereAThreadCannotBeStarted) {
    try {
        const SignalsBlocked blocked;
        throw std::runtime_error("no thread");
    } catch (const std::runtime_error&) {
        EXPECT_FALSE(is_blocked(SIGTERM));
    }
}

}  // namespace
}  // namespace tutti
