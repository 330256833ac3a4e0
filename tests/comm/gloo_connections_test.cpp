// Somebody else connects to the ports at which gloo listens for peers. Ranks are processes of mpirun.

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "communicator_contract.hpp"
#include "gloo_addresses.hpp"
#include "gloo_mesh.hpp"
#include "mpi_environment.hpp"
#include "tutti/comm/gloo.hpp"

namespace tutti::test {
namespace {

/// Whether some lie unread in a connection to that port of this process.
bool has_unread_bytes(const sockaddr_in& port) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const int descriptor = std::stoi(entry.path().filename());
        sockaddr_in own{};
        socklen_t length = sizeof own;
        if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length) != 0) continue;
        int unread = 0;
        if (own.sin_family == AF_INET && own.sin_port == port.sin_port &&
            ioctl(descriptor, FIONREAD, &unread) == 0 && unread > 0)
            return true;
    }
    return false;
}

/// The ports of this rank to which strangers come.
enum class At { all, where_it_will_connect_itself };

/// Connects while strangers come to this rank's ports, in its first attempts.
class Disturbance {
  public:
    /// stays: they hold the connection until the end, else they hang up at once.
    Disturbance(int attempts, At at, bool stays) : left_(attempts), at_(at), stays_(stays) {}
    ~Disturbance() {
        for (const int descriptor : strangers_) close(descriptor);
    }
    Disturbance(const Disturbance&) = delete;
    Disturbance& operator=(const Disturbance&) = delete;

    std::unique_ptr<Communicator> connect() {
        const auto control = session().world(ample_time);
        const auto exchange = [&](const std::string& mine) {
            auto all = all_gather_text(*control, mine);
            if (mine.find('\0') == std::string::npos) return all;
            ++attempts_;
            if (left_-- > 0) disturb(all);
            control->barrier();
            return all;
        };
        const GlooPlace place{session().rank(), session().size(), "here", "127.0.0.1", ""};
        return make_gloo_communicator(connect_gloo(place, exchange, ample_time, {}), ample_time, {});
    }
    int attempts() const { return attempts_; }

  private:
    void disturb(const std::vector<std::string>& all) {
        const int own = session().rank(), peers = session().size() - 1;
        const auto ports = gloo_ports(all[static_cast<std::size_t>(own)], static_cast<std::size_t>(peers));
        for (int peer = 0, place = 0; place < peers; ++peer) {
            if (peer == own) continue;
            const sockaddr_in& port = ports[static_cast<std::size_t>(place++)];
            const auto theirs = gloo_ports(
                all[static_cast<std::size_t>(peer)],
                static_cast<std::size_t>(peers))[static_cast<std::size_t>(own < peer ? own : own - 1)];
            if (at_ == At::all || port.sin_port > theirs.sin_port) come_to(port);
        }
    }

    /// Says as much as is less than one of gloo's messages.
    void come_to(const sockaddr_in& port) {
        const int descriptor = connect_to(port);
        ASSERT_GE(descriptor, 0);
        const std::array<char, 40> words{};
        ASSERT_EQ(send(descriptor, words.data(), words.size(), 0), 40);
        if (stays_)
            strangers_.push_back(descriptor);
        else
            close(descriptor);
        // gloo takes one, and listens no longer.
        for (int next = connect_to(port); next >= 0; next = connect_to(port)) {
            close(next);
            std::this_thread::yield();
        }
        while (has_unread_bytes(port)) std::this_thread::yield();
    }

    int left_;
    At at_;
    bool stays_;
    int attempts_ = 0;
    std::vector<int> strangers_;
};

void expect_sums(Communicator& ranks) {
    std::int64_t count = 1;
    ranks.all_reduce(view_of(std::span(&count, 1)), ReduceOp::sum).wait();
    EXPECT_EQ(count, session().size());
}

class GlooConnections : public testing::Test {
  protected:
    void SetUp() override {
        if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
        if (session().size() == 1) GTEST_SKIP() << "no peers";
    }
};

TEST_F(GlooConnections, strangers_who_stay_are_got_rid_of_by_another_attempt) {
    Disturbance disturbance(1, At::all, true);
    expect_sums(*disturbance.connect());
    EXPECT_GE(disturbance.attempts(), 2);
}

// gloo keeps what they said, and what the peer says over the new connection is taken for the rest of it.
TEST_F(GlooConnections, strangers_where_ranks_then_connect_themselves_are_noticed) {
    Disturbance disturbance(1, At::where_it_will_connect_itself, true);
    expect_sums(*disturbance.connect());
    EXPECT_GE(disturbance.attempts(), 2);
}

TEST_F(GlooConnections, strangers_at_one_rank_and_several_attempts_are_got_rid_of) {
    Disturbance disturbance(session().rank() == 0 ? 3 : 0, At::all, false);
    expect_sums(*disturbance.connect());
    EXPECT_GE(disturbance.attempts(), 4);
}

TEST_F(GlooConnections, strangers_at_every_attempt_are_an_error_on_all_ranks) {
    Disturbance disturbance(session().rank() == 0 ? 1000 : 0, At::all, false);
    try {
        disturbance.connect();
        ADD_FAILURE() << "no error";
    } catch (const PeerError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find(" on here cannot connect to "), std::string::npos) << text;
        EXPECT_NE(text.find("firewall"), std::string::npos) << text;
    }
    EXPECT_EQ(disturbance.attempts(), 5);
}

}  // namespace
}  // namespace tutti::test
