#include "gloo_uncaught.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "gloo_addresses.hpp"
#include "gloo_mesh.hpp"
#include "tutti/comm/gloo.hpp"

namespace tutti::test {
namespace {

constexpr int ranks = 64;

/// Connects and resets the connection at once, before gloo's thread has looked at it.
void connect_and_reset(const sockaddr_in& to) {
    const int descriptor = connect_to(to);
    const linger reset{1, 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(descriptor);
}

std::vector<std::string> reset_all(const std::string& mine) {
    for (const sockaddr_in& port : gloo_ports(mine, ranks - 1)) connect_and_reset(port);
    for (;;) pause();  // as who waits for the others
}

TEST(GlooUncaught, a_connection_that_is_reset_before_it_is_taken_ends_the_process_with_5) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    EXPECT_EXIT(
        connect_gloo({0, ranks, "here", "127.0.0.1", ""}, reset_all, 60, {}), testing::ExitedWithCode(5),
        "error: rank 0 on here cannot connect to its peers: .*getpeername.*; look for the first error");
}

TEST(GlooUncaught, other_exceptions_go_to_the_handler_that_there_was) {
    EXPECT_EXIT(
        {
            std::set_terminate([] { std::_Exit(77); });
            say_what_gloos_thread_throws([](const std::exception&) { return "not gloo's"; });
            std::thread([] { throw std::runtime_error("another"); }).join();
        },
        testing::ExitedWithCode(77), "");
}

}  // namespace
}  // namespace tutti::test
