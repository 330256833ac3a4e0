#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>

#include "tcp_socket.hpp"
#include "tutti/base/error.hpp"
#include "tutti/comm/network.hpp"

namespace tutti {
namespace {

std::string congestion_control_of(int descriptor) {
    std::array<char, 32> name{};
    socklen_t size = name.size();
    EXPECT_EQ(getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size), 0);
    return name.data();
}

/// On a port of the system's choice.
struct Listener {
    Listener() {
        EXPECT_EQ(bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
        EXPECT_EQ(listen(socket.descriptor(), 1), 0);
        socklen_t size = sizeof(address);
        EXPECT_EQ(getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    }
    TcpSocket socket{::socket(AF_INET, SOCK_STREAM, 0)};
    sockaddr_in address{AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {}};
};

TcpSocket connect_to(const Listener& listener) {
    return connect_tcp("127.0.0.1", ntohs(listener.address.sin_port),
                       std::chrono::steady_clock::now() + std::chrono::seconds(10));
}

// reno is in every kernel, and allowed to everybody.
TEST(TcpCongestion, HoldsForTheConnectionsThereAreAndThoseThatAListenerAcceptsLater) {
    const Listener listener;
    const TcpSocket early = connect_to(listener);
    const TcpSocket other(::socket(AF_INET, SOCK_DGRAM, 0));
    EXPECT_GE(set_tcp_congestion("reno"), 2U);
    EXPECT_EQ(congestion_control_of(early.descriptor()), "reno");
    EXPECT_EQ(congestion_control_of(listener.socket.descriptor()), "reno");

    const Listener second;
    set_tcp_congestion("reno");
    const TcpSocket later = connect_to(second);
    const TcpSocket accepted(::accept(second.socket.descriptor(), nullptr, nullptr));
    ASSERT_TRUE(accepted);
    EXPECT_EQ(congestion_control_of(accepted.descriptor()), "reno");
}

TEST(TcpCongestion, ARefusedNameIsNamedWithThoseThatAreAllowed) {
    const Listener listener;
    try {
        set_tcp_congestion("no_such_thing");
        FAIL() << "was taken";
    } catch (const LaunchError& error) {
        EXPECT_NE(std::string(error.what()).find("no_such_thing"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("reno"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace tutti
