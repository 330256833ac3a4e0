#include "gloo_uncaught.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "gloo_mesh.hpp"
#include "tutti/comm/gloo.hpp"

namespace tutti::test {
namespace {

constexpr int ranks = 64;

/// Connects and resets the connection at once, before gloo's thread has looked at it.
void connect_and_reset(const sockaddr_in& to) {
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const linger reset{1, 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    close(descriptor);
}

/// Of rank 0: what it tells of itself are its host and, for each other rank, the address of a port.
std::vector<std::string> reset_all(const std::string& mine) {
    const std::size_t first = mine.find('\0') + 1, bytes = (mine.size() - first) / (ranks - 1);
    for (std::size_t peer = 0; peer + 1 < ranks; ++peer) {
        sockaddr_in address{};
        std::memcpy(&address, mine.data() + first + peer * bytes, sizeof address);
        if (address.sin_family != AF_INET) throw std::runtime_error("gloo's address begins otherwise");
        connect_and_reset(address);
    }
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
