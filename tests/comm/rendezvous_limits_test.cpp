// Meetings at the limit of open files, and connections that are closed.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <thread>

#include "meeting_points.hpp"
#include "rendezvous.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

/// In a process that may open no more than `more` files from here on.
void allow_more_files(int more) {
    std::vector<int> taken;
    for (int i = 0; i < more; ++i) taken.push_back(dup(0));
    const auto limit = static_cast<rlim_t>(*std::ranges::max_element(taken) + 1);
    for (const int one : taken) close(one);
    const rlimit fixed{limit, limit};
    setrlimit(RLIMIT_NOFILE, &fixed);
}

TEST(rendezvous, at_the_limit_of_open_files_ends_on_all_ranks_with_the_remedy) {
#ifdef __SANITIZE_ADDRESS__
    // With which the sanitizer of undefined behaviour comes here; that one has no macro of its own.
    GTEST_SKIP() << "UBSan looks at objects through a pipe, for which no file is left";
#endif
    const MeetingPoint point = point_at(free_port());
    std::array<int, 2> words{};
    ASSERT_EQ(pipe(words.data()), 0);
    const pid_t host = fork();
    ASSERT_GE(host, 0);
    if (host == 0) {
        allow_more_files(3);  // a listener, what is kept for this case, and one rank
        std::string said = "no error";
        try {
            const Rendezvous rank_0(0, 3, point, 30, {});
        } catch (const LaunchError& error) {
            said = error.what();
        } catch (const std::exception& error) {
            said = std::string("another error: ") + error.what();
        }
        _exit(write(words[1], said.data(), said.size()) > 0 ? 0 : 1);
    }
    close(words[1]);
    std::array<std::string, 2> told;
    std::vector<std::thread> ranks;
    for (int rank = 1; rank < 3; ++rank)
        ranks.emplace_back([&, rank] {
            try {
                Rendezvous(rank, 3, point, 30, {}).exchange("");
            } catch (const LaunchError& error) {
                told[static_cast<std::size_t>(rank - 1)] = error.what();
            } catch (const std::exception& error) {
                told[static_cast<std::size_t>(rank - 1)] = std::string("another error: ") + error.what();
            }
        });
    for (auto& rank : ranks) rank.join();
    std::array<char, 1000> text{};
    const ssize_t length = read(words[0], text.data(), text.size());
    close(words[0]);
    int status = 0;
    EXPECT_EQ(waitpid(host, &status, 0), host);
    const std::string said(text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    EXPECT_NE(said.find("cannot take in rank"), std::string::npos) << said;
    EXPECT_NE(said.find(" of 3: Too many open files; raise the limit of open files"), std::string::npos)
        << said;
    EXPECT_NE(said.find("ulimit -n"), std::string::npos) << said;
    for (const std::string& one : told) EXPECT_EQ(one, said);
}

TEST(rendezvous, tells_who_has_closed_the_connection_also_behind_what_is_not_read) {
    const MeetingPoint point = point_at(free_port());
    const auto wait_for = [](const Rendezvous& rendezvous, const std::vector<int>& ranks) {
        while (rendezvous.closed() != ranks) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    };
    std::thread rank_1([&] {
        Rendezvous rendezvous(1, 3, point, 30, {});
        wait_for(rendezvous, {0});
    });
    std::thread rank_2([&] {
        Rendezvous rendezvous(2, 3, point, 30, {});
        const std::string text = "as exchange() begins";
        const std::vector<TcpSocket> to_rank_0 = rendezvous.release();
        EXPECT_TRUE(to_rank_0.front().send_at_once(std::as_bytes(std::span(text))));
    });
    {
        const Rendezvous rendezvous(0, 3, point, 30, {});
        rank_2.join();
        wait_for(rendezvous, {2});
    }
    rank_1.join();
}

}  // namespace
}  // namespace tutti::test
