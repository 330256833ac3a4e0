#include "greeting.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>

namespace tutti {
namespace {

struct Greeting {
    char magic[4] = {'G', 'O', 'O', 'D'};
    std::int32_t number = 0;
};
const Greeting a_greeting{};
const auto greeting_magic = std::as_bytes(std::span(a_greeting.magic));

/// Somebody, and the other end of their connection.
struct Visit {
    TcpSocket visitor;
    Stranger<Greeting> stranger{TcpSocket()};
    Visit() {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
        visitor = TcpSocket(ends[0]);
        stranger.socket = TcpSocket(ends[1]);
    }
    void says(std::span<const std::byte> bytes) { ASSERT_TRUE(visitor.send_at_once(bytes)); }
};

TEST(greeting, is_heard_in_parts_of_any_size) {
    const Greeting sent{{'G', 'O', 'O', 'D'}, 0x01020304};
    const auto bytes = std::as_bytes(std::span(&sent, 1));
    for (std::size_t part = 1; part <= bytes.size(); ++part) {
        Visit visit;
        EXPECT_FALSE(visit.stranger.hear(greeting_magic));
        std::optional<Greeting> heard;
        for (std::size_t first = 0; first < bytes.size(); first += part) {
            EXPECT_FALSE(heard) << first;
            visit.says(bytes.subspan(first, std::min(part, bytes.size() - first)));
            heard = visit.stranger.hear(greeting_magic);
            EXPECT_TRUE(visit.stranger.socket) << first;
        }
        ASSERT_TRUE(heard) << part;
        EXPECT_EQ(heard->number, 0x01020304);
    }
}

TEST(greeting, what_follows_it_is_left_in_the_connection) {
    Visit visit;
    const std::array<Greeting, 2> sent{{{{'G', 'O', 'O', 'D'}, 1}, {{'M', 'O', 'R', 'E'}, 2}}};
    visit.says(std::as_bytes(std::span(sent)));
    EXPECT_TRUE(visit.stranger.hear(greeting_magic));
    Greeting more;
    EXPECT_EQ(visit.stranger.socket.receive_some(std::as_writable_bytes(std::span(&more, 1))), sizeof more);
    EXPECT_EQ(more.number, 2);
}

TEST(greeting, another_beginning_ends_at_its_first_byte) {
    const Greeting sent{{'G', 'O', 'A', 'T'}, 1};
    const auto bytes = std::as_bytes(std::span(&sent, 1));
    Visit visit;
    visit.says(bytes.first(2));
    EXPECT_FALSE(visit.stranger.hear(greeting_magic));
    EXPECT_TRUE(visit.stranger.socket);
    visit.says(bytes.subspan(2, 1));
    EXPECT_FALSE(visit.stranger.hear(greeting_magic));
    EXPECT_FALSE(visit.stranger.socket);
}

// What is judged by its secret must not be answered before all of it has come.
TEST(greeting, without_a_known_beginning_any_is_heard_to_its_end) {
    const Greeting sent{{'G', 'O', 'A', 'T'}, 1};
    const auto bytes = std::as_bytes(std::span(&sent, 1));
    Visit visit;
    visit.says(bytes.first(bytes.size() - 1));
    EXPECT_FALSE(visit.stranger.hear());
    EXPECT_TRUE(visit.stranger.socket);
    visit.says(bytes.last(1));
    EXPECT_TRUE(visit.stranger.hear());
}

TEST(greeting, who_hangs_up_before_its_end_is_gone) {
    const Greeting sent;
    for (const std::size_t part : {0U, 3U, 7U}) {
        Visit visit;
        visit.says(std::as_bytes(std::span(&sent, 1)).first(part));
        visit.visitor.close();
        EXPECT_FALSE(visit.stranger.hear(greeting_magic));
        EXPECT_FALSE(visit.stranger.hear(greeting_magic)) << part;
        EXPECT_FALSE(visit.stranger.socket) << part;
    }
}

}  // namespace
}  // namespace tutti
