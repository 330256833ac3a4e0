#include "rendezvous.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <span>
#include <thread>

#include "meeting_points.hpp"
#include "suspension.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/steady_seconds.hpp"
#include "tutti/comm/session.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;

/// Every rank on a thread; what each got, or the text of its error.
std::vector<std::vector<std::string>> meet(int size, const MeetingPoint& point, double timeout = 30) {
    std::vector<std::vector<std::string>> got(static_cast<std::size_t>(size));
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank)
        ranks.emplace_back([&, rank] {
            auto& mine = got[static_cast<std::size_t>(rank)];
            try {
                Rendezvous rendezvous(rank, size, point, timeout, {});
                mine = rendezvous.exchange(std::string(static_cast<std::size_t>(rank) * 100'000, 'x'));
                mine.push_back(rendezvous.address());
            } catch (const std::exception& error) {
                mine = {error.what()};
            }
        });
    for (auto& rank : ranks) rank.join();
    return got;
}

void expect_all_met(const std::vector<std::vector<std::string>>& got) {
    for (const auto& mine : got) {
        ASSERT_EQ(mine.size(), got.size() + 1) << (mine.empty() ? "" : mine.front());
        for (std::size_t rank = 0; rank < got.size(); ++rank) EXPECT_EQ(mine[rank].size(), rank * 100'000);
        EXPECT_EQ(mine.back(), "127.0.0.1");
    }
}

/// Holds a port and answers nothing, as torchrun's agent does to who does not speak its language; or closes.
class Squatter {
  public:
    Squatter(int port, bool closes) : listener_(listen_tcp(port, true)) {
        thread_ = std::thread([this, closes] {
            std::vector<TcpSocket> held;
            while (!stop_) {
                pollfd caller{listener_.descriptor(), POLLIN, 0};
                ::poll(&caller, 1, 10);
                if (TcpSocket socket = accept_tcp(listener_); socket && !closes)
                    held.push_back(std::move(socket));
            }
        });
    }
    ~Squatter() {
        stop_ = true;
        thread_.join();
    }
    Squatter(const Squatter&) = delete;
    Squatter& operator=(const Squatter&) = delete;

    bool holds_its_port() const { return static_cast<bool>(listener_); }

  private:
    TcpSocket listener_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

TEST(rendezvous, ranks_exchange_texts_of_any_length) {
    for (const int size : {1, 2, 3, 4, 9}) expect_all_met(meet(size, point_at(free_port())));
}

// As many jobs begin: 1024 files may be open, and there are more ranks.
TEST(rendezvous, more_ranks_meet_than_files_may_be_open_at_first) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    if (before.rlim_max < 200) GTEST_SKIP() << "no more than " << before.rlim_max << " files may be open";
    const rlimit few{40, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto got = meet(24, point_at(free_port()), 5);
    setrlimit(RLIMIT_NOFILE, &before);
    expect_all_met(got);
}

// Debian's host name; a host without IPv4.
TEST(rendezvous, ranks_meet_at_each_address_of_this_host) {
    for (const char* const address : {"127.0.1.1", "::1"}) {
        const int port = free_port();
        WaitClock clock;
        if (std::string(address) == "::1" && !resolve_problem(address, {clock, 1}).empty()) continue;
        for (const auto& mine : meet(2, {address, port, "job"}, 10))
            EXPECT_EQ(mine.size(), 3U) << mine.front();
    }
}

TEST(rendezvous, passes_over_ports_that_others_hold) {
    for (const bool closes : {true, false}) {
        const int port = free_port();
        const Squatter agent(port, closes), another(port + 1, closes);
        ASSERT_TRUE(agent.holds_its_port() && another.holds_its_port());
        expect_all_met(meet(3, point_at(port)));
    }
}

TEST(rendezvous, knocks_seldom_behind_a_port_where_nobody_listens) {
    const int port = free_port();
    const TcpSocket listener = listen_tcp(port + 5, true);
    ASSERT_TRUE(listener);
    EXPECT_THROW(Rendezvous(1, 2, point_at(port), 1, {}), PeerError);
    int knocks = 0;
    while (accept_tcp(listener)) ++knocks;
    EXPECT_LE(knocks, 1);
}

TEST(rendezvous, finds_rank_0_behind_a_port_that_has_become_free) {
    const int port = free_port();
    std::optional<Squatter> agent(std::in_place, port, true);
    ASSERT_TRUE(agent->holds_its_port());
    std::thread host([&] { Rendezvous(0, 2, point_at(port), 30, {}); });
    for (bool listens = false; !listens;) {
        WaitClock clock;
        listens = static_cast<bool>(connect_tcp("127.0.0.1", port + 1, Deadline(clock, 1)));
    }
    agent.reset();
    EXPECT_NO_THROW(Rendezvous(1, 2, point_at(port), 30, {}));
    host.join();
}

TEST(rendezvous, a_rank_that_has_hung_up_may_come_again) {
    const MeetingPoint point = point_at(free_port());
    std::thread host([&] { EXPECT_NO_THROW(Rendezvous(0, 2, point, 30, {})); });
    WaitClock clock;
    TcpSocket first;
    while (!first) first = connect_tcp("127.0.0.1", point.port, Deadline(clock, 1));
    // What it says and that it has hung up arrive together.
    const int together = 1;
    ASSERT_EQ(setsockopt(first.descriptor(), IPPROTO_TCP, TCP_CORK, &together, sizeof together), 0);
    const Hello hello = hello_of(point, 1, 2);
    ASSERT_TRUE(first.send_at_once(std::as_bytes(std::span(&hello, 1))));
    first.close();
    EXPECT_NO_THROW(Rendezvous(1, 2, point, 30, {}));
    host.join();
}

TEST(rendezvous, two_jobs_at_one_port_do_not_mix) {
    const int port = free_port();
    std::vector<std::vector<std::string>> one, two;
    std::thread first([&] { one = meet(3, point_at(port, "one")); });
    std::thread second([&] { two = meet(2, point_at(port, "two")); });
    first.join();
    second.join();
    expect_all_met(one);
    expect_all_met(two);
}

TEST(rendezvous, is_not_disturbed_by_strangers) {
    const int port = free_port();
    std::atomic<bool> met{false};
    std::thread stranger([&] {
        while (!met) {
            WaitClock clock;
            const Deadline soon(clock, 1);
            const TcpSocket silent = connect_tcp("127.0.0.1", port, soon);
            const TcpSocket loud = connect_tcp("127.0.0.1", port, soon);
            const std::array<std::byte, 300> noise{};
            if (loud) loud.send(noise, soon);
        }
    });
    expect_all_met(meet(4, point_at(port)));
    met = true;
    stranger.join();
}

TEST(rendezvous, names_who_did_not_come) {
    try {
        Rendezvous(0, 12, point_at(free_port()), 0.2, {});
        FAIL() << "no error";
    } catch (const PeerError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more of 12 did not come to 127.0.0.1:"),
                  std::string::npos)
            << text;
        EXPECT_NE(text.find("MASTER_ADDR"), std::string::npos) << text;
    }
    try {
        Rendezvous(1, 2, point_at(free_port()), 0.2, {});
        FAIL() << "no error";
    } catch (const PeerError& error) {
        EXPECT_NE(std::string(error.what()).find("does not find rank 0 at 127.0.0.1:"), std::string::npos)
            << error.what();
    }
}

TEST(rendezvous, names_its_time_out_as_it_is_told_to) {
    for (const int rank : {0, 1}) try {
            Rendezvous(rank, 2, point_at(free_port()), 0.2, {}, steady_seconds, "the time-out (short)");
            FAIL() << "no error";
        } catch (const PeerError& error) {
            EXPECT_TRUE(std::string(error.what()).ends_with("; the time-out (short) is how long to wait"))
                << error.what();
        }
}

TEST(StartPatience, names_a_time_out_that_is_shorter_than_the_start_waits_with_both) {
    EXPECT_EQ(StartPatience{}.timeout_name(), "distributed.timeout");
    StartPatience patience{30, 30, 30, 3};
    EXPECT_EQ(patience.timeout_name(), "distributed.timeout (3 here, at least 30 at the start)");
    patience.wished = 0.5;
    EXPECT_EQ(patience.timeout_name(), "distributed.timeout (0.5 here, at least 30 at the start)");
}

TEST(rendezvous, those_who_came_hear_who_did_not) {
    const MeetingPoint point = point_at(free_port());
    std::vector<std::string> said(2);
    std::vector<std::thread> ranks;
    for (const int rank : {0, 1})
        ranks.emplace_back([&, rank] {
            try {
                Rendezvous(rank, 3, point, 1, {});
            } catch (const PeerError& error) {
                said[static_cast<std::size_t>(rank)] = error.what();
            }
        });
    for (auto& rank : ranks) rank.join();
    EXPECT_NE(said[0].find("rank 2 of 3 did not come to 127.0.0.1:"), std::string::npos) << said[0];
    EXPECT_NE(said[0].find(" within 1 s; "), std::string::npos) << said[0];
    EXPECT_EQ(said[1], said[0]);
}

TEST(rendezvous, names_who_came_and_fell_silent) {
    const MeetingPoint point = point_at(free_port());
    std::vector<std::string> said(3);
    std::atomic<bool> over{false};
    std::vector<std::thread> ranks;
    for (const int rank : {0, 1, 2})
        ranks.emplace_back([&, rank] {
            try {
                Rendezvous rendezvous(rank, 3, point, 1, {});
                if (rank == 2) over.wait(false);
                if (rank != 2) rendezvous.exchange("here");
            } catch (const PeerError& error) {
                said[static_cast<std::size_t>(rank)] = error.what();
            }
        });
    ranks[0].join();
    ranks[1].join();
    over = true;
    over.notify_all();
    ranks[2].join();
    EXPECT_NE(said[0].find(": rank 2 has come, but says nothing more since 1 s; "), std::string::npos)
        << said[0];
    EXPECT_EQ(said[1], said[0]);
}

TEST(rendezvous, time_in_which_a_rank_was_suspended_while_it_waited_does_not_count) {
    for (const int suspended : {0, 1}) {
        const MeetingPoint point = point_at(free_port());
        Suspension suspension([looks = 0]() mutable { return ++looks > 6; });
        std::size_t met = 0;
        std::thread one([&] {
            try {
                met = Rendezvous(suspended, 2, point, 30, {}, suspension.clock()).exchange("here").size();
            } catch (const std::exception& error) {
                ADD_FAILURE() << suspended << ": " << error.what();
            }
        });
        suspension.wait_for_looks(1);
        try {
            EXPECT_EQ(Rendezvous(1 - suspended, 2, point, 5, {}).exchange("here").size(), 2U);
        } catch (const std::exception& error) {
            ADD_FAILURE() << 1 - suspended << ": " << error.what();
        }
        one.join();
        EXPECT_EQ(met, 2U) << suspended;
    }
}

TEST(rendezvous, time_in_which_a_rank_was_suspended_while_it_waited_for_a_text_does_not_count) {
    for (const int suspended : {0, 1}) {
        const MeetingPoint point = point_at(free_port());
        std::atomic<int> have_met = 0;
        Suspension suspension([&] { return have_met == 2; });
        std::vector<std::size_t> met(2);
        std::vector<std::thread> ranks;
        for (const int rank : {0, 1})
            ranks.emplace_back([&, rank] {
                try {
                    const bool sleeps = rank == suspended;
                    Rendezvous rendezvous(rank, 2, point, 30, {},
                                          sleeps ? suspension.clock() : steady_seconds);
                    ++have_met;
                    if (!sleeps) suspension.wait_for_looks(1);
                    met[static_cast<std::size_t>(rank)] = rendezvous.exchange("here").size();
                } catch (const std::exception& error) {
                    ADD_FAILURE() << rank << ": " << error.what();
                }
            });
        for (auto& rank : ranks) rank.join();
        EXPECT_EQ(met, std::vector<std::size_t>(2, 2)) << suspended;
    }
}

// By hand jobs have no name; the later one's ranks may come to the earlier one's rank 0 first.
TEST(rendezvous, two_jobs_of_one_name_meet_at_ports_of_their_own) {
    for (const int size : {2, 3}) {
        const MeetingPoint point = point_at(free_port());
        std::vector<std::size_t> met(size == 2 ? 5 : 6);
        std::vector<std::thread> ranks;
        const auto start = [&](std::size_t place, int rank, int ranks_of_it,
                               std::chrono::milliseconds later) {
            ranks.emplace_back([&met, &point, place, rank, ranks_of_it, later] {
                std::this_thread::sleep_for(later);
                try {
                    met[place] = Rendezvous(rank, ranks_of_it, point, 20, {}).exchange("here").size();
                } catch (const std::exception& error) {
                    ADD_FAILURE() << rank << " of " << ranks_of_it << ": " << error.what();
                }
            });
        };
        start(0, 0, 3, 0ms);
        start(1, 1, 3, 100ms);
        start(2, 2, 3, 2500ms);
        start(3, 1, size, 500ms);
        start(4, 0, size, 1500ms);
        if (size == 3) start(5, 2, size, 3500ms);
        for (auto& rank : ranks) rank.join();
        for (std::size_t place = 0; place < met.size(); ++place)
            EXPECT_EQ(met[place], place < 3 ? 3U : static_cast<std::size_t>(size)) << place;
    }
}

TEST(rendezvous, refuses_a_name_that_does_not_resolve_on_every_rank) {
    for (const int rank : {0, 1}) {
        try {
            Rendezvous(rank, 2, {"no-such-host.invalid", free_port(), ""}, 0.2, {});
            FAIL() << "no error";
        } catch (const LaunchError& error) {
            const std::string text = error.what();
            EXPECT_NE(text.find("rank " + std::to_string(rank)), std::string::npos) << text;
            EXPECT_NE(text.find("cannot resolve MASTER_ADDR=no-such-host.invalid ("), std::string::npos)
                << text;
            EXPECT_NE(text.find("; set MASTER_ADDR to"), std::string::npos) << text;
        }
    }
}

TEST(rendezvous, a_rank_that_ends_before_the_others_came_ends_the_wait) {
    const MeetingPoint point = point_at(free_port());
    std::thread rank_0([&] {
        try {
            Rendezvous(0, 3, point, 30, {});
            ADD_FAILURE() << "no error";
        } catch (const PeerError& error) {
            EXPECT_NE(std::string(error.what()).find("rank 1 ended"), std::string::npos) << error.what();
        }
    });
    // Rank 1 says hello, is welcomed, and is gone.
    WaitClock clock;
    const Deadline soon(clock, 20);
    Welcome welcome{};
    while (!soon.passed()) {
        const TcpSocket socket = connect_tcp(point.address, point.port, soon);
        const Hello hello = hello_of(point, 1, 3);
        if (socket && socket.send(std::as_bytes(std::span(&hello, 1)), soon) &&
            socket.receive(std::as_writable_bytes(std::span(&welcome, 1)), soon))
            break;
    }
    EXPECT_EQ(welcome.taken, 0);
    rank_0.join();
}

}  // namespace
}  // namespace tutti::test
