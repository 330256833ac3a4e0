#include "peer_watch.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tutti::test {
namespace {

constexpr double for_ever = 600;

std::array<TcpSocket, 2> connection() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    return {TcpSocket(ends[0]), TcpSocket(ends[1])};
}

/// Rank 0 of two; the other rank's end of the connection.
std::pair<PeerWatch, TcpSocket> watch_of_rank_0() {
    auto [own, other] = connection();
    std::vector<TcpSocket> star(2);
    star[1] = std::move(own);
    return {PeerWatch(0, {"here", "there"}, std::move(star)), std::move(other)};
}

TEST(PeerWatch, waits_to_be_told_who_has_ended) {
    auto [watch, other] = watch_of_rank_0();
    EXPECT_EQ(watch.departed(true), "");
    std::thread dying([&end = other] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        end.close();
    });
    EXPECT_EQ(watch.departed_within(for_ever), "rank 1 on there has ended");
    dying.join();
}

TEST(PeerWatch, waits_no_longer_than_it_shall) {
    auto [watch, other] = watch_of_rank_0();
    EXPECT_EQ(watch.departed_within(0.1), "");
    EXPECT_EQ(PeerWatch().departed_within(for_ever), "");
}

TEST(PeerWatch, waits_a_moment_alone_for_who_has_said_good_bye) {
    auto [watch, other] = watch_of_rank_0();
    other.send_at_once(std::as_bytes(std::span(".", 1)));
    EXPECT_EQ(watch.departed_within(for_ever), "rank 1 on there has ended without this call");
}

TEST(PeerWatch, rank_0_passes_on_who_has_ended) {
    const std::vector<std::string> hosts{"here", "there", "elsewhere"};
    auto [to_1, of_1] = connection();
    auto [to_2, of_2] = connection();
    std::vector<TcpSocket> star(3), ray(1);
    star[1] = std::move(to_1);
    star[2] = std::move(to_2);
    ray[0] = std::move(of_2);
    PeerWatch first(0, hosts, std::move(star)), last(2, hosts, std::move(ray));
    of_1.close();
    EXPECT_EQ(first.departed_within(for_ever), "rank 1 on there has ended");
    EXPECT_EQ(last.departed_within(for_ever), "rank 1 on there has ended");
}

}  // namespace
}  // namespace tutti::test
