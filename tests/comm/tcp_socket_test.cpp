#include "tcp_socket.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <span>
#include <vector>

namespace tutti {
namespace {

struct Pair {
    TcpSocket one, other;
    Pair() {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
        one = TcpSocket(ends[0]);
        other = TcpSocket(ends[1]);
    }
};

// Who waited in vain asks the clock whether its peer was silent or is lost.
TEST(tcp_socket, a_silent_peer_is_not_given_up_before_the_deadline) {
    const Pair pair;
    std::array<std::byte, 4> bytes{};
    for (int i = 0; i < 40; ++i) {
        WaitClock clock;
        const Deadline deadline(clock, 1e-3 + 25e-6 * i);
        EXPECT_FALSE(pair.one.receive(bytes, deadline));
        EXPECT_TRUE(deadline.passed()) << i;
    }
}

TEST(tcp_socket, a_lost_peer_is_noticed_before_the_deadline) {
    Pair pair;
    pair.other = {};
    std::array<std::byte, 4> bytes{};
    WaitClock clock;
    const Deadline deadline(clock, 60);
    EXPECT_FALSE(pair.one.receive(bytes, deadline));
    EXPECT_FALSE(deadline.passed());
}

TEST(tcp_socket, what_came_before_the_deadline_is_received_in_parts) {
    const Pair pair;
    const std::array<std::byte, 4> sent{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    WaitClock clock;
    ASSERT_TRUE(pair.other.send(std::span(sent).first(1), {clock, 10}));
    ASSERT_TRUE(pair.other.send(std::span(sent).subspan(1), {clock, 10}));
    std::array<std::byte, 4> bytes{};
    EXPECT_TRUE(pair.one.receive(bytes, {clock, 10}));
    EXPECT_EQ(bytes, sent);
}

TEST(tcp_socket, what_is_sent_at_once_never_waits) {
    Pair pair;
    const std::vector<std::byte> more_than_fits(64 << 20);
    EXPECT_TRUE(pair.one.send_at_once(std::span(more_than_fits).first(10)));
    EXPECT_FALSE(pair.one.send_at_once(more_than_fits));
    pair.other.close();
    EXPECT_FALSE(pair.one.send_at_once(std::span(more_than_fits).first(1)));
}

TEST(tcp_socket, connects_in_the_background_where_somebody_listens) {
    TcpSocket listener = listen_tcp(0, true);
    ASSERT_TRUE(listener);
    const int port = listener.local_port();
    ASSERT_GT(port, 0);
    const auto decided = [](const TcpSocket& socket) {
        pollfd entry{socket.descriptor(), POLLOUT, 0};
        return ::poll(&entry, 1, 10000) == 1;
    };
    const TcpSocket socket = begin_connect("127.0.0.1", port);
    ASSERT_TRUE(socket && decided(socket));
    EXPECT_TRUE(is_connected(socket));
    EXPECT_TRUE(accept_tcp(listener));
    EXPECT_FALSE(begin_connect("no.number", port));

    listener.close();
    const TcpSocket refused = begin_connect("127.0.0.1", port);
    EXPECT_TRUE(!refused || (decided(refused) && !is_connected(refused)));
}

}  // namespace
}  // namespace tutti
