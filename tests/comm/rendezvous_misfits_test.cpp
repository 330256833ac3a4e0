// Ranks that have no place in their job: numbers by hand that do not fit together.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "meeting_points.hpp"
#include "rendezvous.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;

/// What each of these processes, (rank, size), is told by the LaunchError that ends it; the last comes later.
std::vector<std::string> refusals(const std::vector<std::pair<int, int>>& processes, double timeout = 8) {
    const MeetingPoint point = point_at(free_port());
    std::vector<std::string> said(processes.size());
    std::vector<std::thread> ranks;
    for (std::size_t i = 0; i < processes.size(); ++i)
        ranks.emplace_back([&, i] {
            if (i + 1 == processes.size()) std::this_thread::sleep_for(300ms);
            try {
                Rendezvous rendezvous(processes[i].first, processes[i].second, point, timeout, {});
                rendezvous.exchange("here");
            } catch (const LaunchError& error) {
                said[i] = error.what();
            } catch (const std::exception& error) {
                said[i] = std::string("no LaunchError: ") + error.what();
            }
        });
    for (auto& rank : ranks) rank.join();
    return said;
}

TEST(RendezvousMisfits, two_processes_of_the_same_rank_end_all_before_the_time_out) {
    for (const std::string& text : refusals({{0, 3}, {1, 3}, {1, 3}})) {
        EXPECT_NE(text.find("two processes are rank 1 of 3: one on "), std::string::npos) << text;
        EXPECT_NE(text.find("; give each process a RANK of its own"), std::string::npos) << text;
    }
}

TEST(RendezvousMisfits, two_processes_of_rank_0_end_all_before_the_time_out) {
    for (const auto& processes : {std::vector<std::pair<int, int>>{{0, 2}, {0, 2}}, {{0, 3}, {1, 3}, {0, 3}}})
        for (const std::string& text : refusals(processes))
            EXPECT_NE(text.find("two processes are rank 0 of " + std::to_string(processes[0].second)),
                      std::string::npos)
                << text;
}

TEST(RendezvousMisfits, rank_0_is_no_second_one_to_itself) {
    // Which is answered from 127.0.0.1.
    const MeetingPoint point{"127.0.1.1", free_port(), point_at(0).job};
    std::array<std::size_t, 2> met{};
    std::vector<std::thread> ranks;
    for (const int rank : {0, 1})
        ranks.emplace_back([&, rank] {
            std::this_thread::sleep_for(rank * 5s);  // a quarter of the time-out, and more
            try {
                met.at(static_cast<std::size_t>(rank)) =
                    Rendezvous(rank, 2, point, 8, {}).exchange("here").size();
            } catch (const std::exception& error) {
                ADD_FAILURE() << rank << ": " << error.what();
            }
        });
    for (auto& rank : ranks) rank.join();
    EXPECT_EQ(met, (std::array<std::size_t, 2>{2, 2}));
}

TEST(RendezvousMisfits, a_rank_0_of_another_size_at_a_port_before_is_another_jobs) {
    for (const std::string& text : refusals({{0, 2}, {0, 3}}, 4))
        EXPECT_NE(text.find("no LaunchError: rank 0 on "), std::string::npos) << text;
}

TEST(RendezvousMisfits, another_size_ends_all_before_the_time_out) {
    for (const auto& processes :
         {std::vector<std::pair<int, int>>{{0, 3}, {1, 3}, {2, 4}}, {{0, 3}, {1, 2}, {2, 3}}}) {
        const auto& [rank, size] = processes[processes[1].second == 3 ? 2 : 1];
        const std::string expected = "rank " + std::to_string(rank) + " on ";
        for (const std::string& text : refusals(processes)) {
            EXPECT_EQ(text.find(expected), 0U) << text;
            EXPECT_NE(text.find(" has WORLD_SIZE " + std::to_string(size) + ", and rank 0 on "),
                      std::string::npos)
                << text;
            EXPECT_NE(text.find(" 3; give each process"), std::string::npos) << text;
        }
    }
}

}  // namespace
}  // namespace tutti::test
