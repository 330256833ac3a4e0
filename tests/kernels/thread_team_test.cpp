// Regions by threads of our own: what run_together promises, and when OpenMP's threads are left to compute.

#include "thread_team.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "host_progress.hpp"
#include "parallel.hpp"
#include "short_waits.hpp"

namespace tutti {
namespace {

/// What a training does: the second step follows one without a library's regions.
void pass_step(ThreadTeam& team) {
    team.begin_step();
    team.begin_step();
}

/// While it lives OMP_WAIT_POLICY has this value (null: none) for what asks from now on; OpenMP asked before.
class WaitPolicy {
  public:
    explicit WaitPolicy(const char* value) {
        if (const char* const before = std::getenv(name)) before_ = before;
        value ? setenv(name, value, 1) : unsetenv(name);
    }
    ~WaitPolicy() { before_ ? setenv(name, before_->c_str(), 1) : unsetenv(name); }
    WaitPolicy(const WaitPolicy&) = delete;
    WaitPolicy& operator=(const WaitPolicy&) = delete;

  private:
    static constexpr const char* name = "OMP_WAIT_POLICY";
    std::optional<std::string> before_;
};

class ThreadTeamTest : public testing::Test {
  protected:
    static constexpr int threads = 2;

    void SetUp() override {
        omp_set_num_threads(threads);
        const WaitPolicy none(nullptr);
        team_.emplace(threads, threads);
        pass_step(*team_);
        if (!ThreadTeam::ready(threads)) GTEST_SKIP() << "OpenMP binds threads here";
    }
    void TearDown() override { omp_set_num_threads(before_); }

    const int before_ = omp_get_max_threads();
    std::optional<ThreadTeam> team_;
};

TEST_F(ThreadTeamTest, each_caller_goes_through_the_body_once_and_all_have_ended_then) {
    std::array<std::int64_t, threads> sums{};
    std::int64_t expected = 0;
    for (std::int64_t region = 0; region < 20000; ++region) {
        expected += region;
        run_together(threads, [&](int caller, int there) {
            sums[static_cast<std::size_t>(caller)] += there == threads ? region : -1;
        });
        ASSERT_EQ(sums[0], expected);
        ASSERT_EQ(sums[1], expected);
    }
}

TEST_F(ThreadTeamTest, its_threads_are_the_same_in_each_region_and_none_of_openmps) {
    std::array<std::thread::id, threads> first{}, later{}, openmp{};
    const auto note = [](std::array<std::thread::id, threads>& into) {
        run_together(threads, [&](int caller, int) {
            into[static_cast<std::size_t>(caller)] = std::this_thread::get_id();
        });
    };
    note(first);
    note(later);
    ThreadTeam::note_library_region();
    note(openmp);
    EXPECT_EQ(first, later);
    EXPECT_EQ(first[0], std::this_thread::get_id());
    EXPECT_EQ(openmp[0], first[0]);
    EXPECT_NE(openmp[1], first[1]);
}

TEST_F(ThreadTeamTest, threads_that_sleep_are_woken) {
    for (int time = 0; time < 3; ++time) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        std::array<int, threads> calls{};
        run_together(threads, [&](int caller, int) { ++calls[static_cast<std::size_t>(caller)]; });
        EXPECT_EQ(calls, (std::array<int, threads>{1, 1}));
    }
}

TEST_F(ThreadTeamTest, inside_a_region_there_is_one_thread_and_no_team) {
    std::array<int, threads> most{}, region{};
    std::array<bool, threads> team{};
    run_together(threads, [&](int caller, int) {
        const auto number = static_cast<std::size_t>(caller);
        most[number] = omp_get_max_threads();
        team[number] = ThreadTeam::ready(threads) != nullptr;
#pragma omp parallel
#pragma omp single
        region[number] = omp_get_num_threads();
    });
    EXPECT_EQ(most, (std::array<int, threads>{1, 1}));
    EXPECT_EQ(region, (std::array<int, threads>{1, 1}));
    EXPECT_EQ(team, (std::array<bool, threads>{false, false}));
    EXPECT_EQ(omp_get_max_threads(), threads);
    EXPECT_TRUE(ThreadTeam::ready(threads));
}

// What polls throw leaves no region.
TEST_F(ThreadTeamTest, a_poll_that_fails_inside_is_told_behind_the_region) {
    set_host_progress([] { throw std::runtime_error("the network is down"); });
    std::array<int, threads> ended{};
    run_together(threads, [&](int caller, int) {
        offer_progress();
        ++ended[static_cast<std::size_t>(caller)];
    });
    EXPECT_EQ(ended, (std::array<int, threads>{1, 1}));
    EXPECT_THROW(offer_progress(), std::runtime_error);
    set_host_progress({});
}

TEST_F(ThreadTeamTest, stands_aside_after_a_librarys_region_until_a_step_has_passed_without) {
    const auto ready = [] { return ThreadTeam::ready(threads) != nullptr; };
    ThreadTeam::note_library_region();
    EXPECT_FALSE(ready());
    team_->begin_step();
    EXPECT_FALSE(ready());
    ThreadTeam::note_library_region();  // in this step, too
    team_->begin_step();
    EXPECT_FALSE(ready());
    team_->begin_step();
    EXPECT_TRUE(ready());
    {
        const OneThread alone;
        ThreadTeam::note_library_region();  // with which OpenMP has nothing to do
    }
    EXPECT_TRUE(ready());
}

TEST_F(ThreadTeamTest, there_is_none_before_a_step_has_passed) {
    const WaitPolicy none(nullptr);
    ThreadTeam team(threads, threads);
    EXPECT_FALSE(ThreadTeam::ready(threads));
    team.begin_step();
    EXPECT_FALSE(ThreadTeam::ready(threads));
    team.begin_step();
    EXPECT_TRUE(ThreadTeam::ready(threads));
}

TEST_F(ThreadTeamTest, there_is_none_where_threads_are_to_wait_asleep) {
    const WaitPolicy passive("PASSIVE");
    ThreadTeam team(threads, threads);
    pass_step(team);
    EXPECT_NE(ThreadTeam::ready(threads), &team);
    team_.reset();
    EXPECT_FALSE(ThreadTeam::ready(threads));
}

// As OpenMP has it in a region of its own, whatever number is asked for.
TEST_F(ThreadTeamTest, a_region_inside_has_the_caller_alone) {
    std::array<int, threads> calls{}, most{}, lanes{};
    run_together(threads, [&](int caller, int) {
        const auto number = static_cast<std::size_t>(caller);
        run_together(3, [&](int inner, int there) {
            ++calls[number];
            most[number] = inner + there;
        });
        for_lanes(2, [&](int) { ++lanes[number]; });
    });
    EXPECT_EQ(calls, (std::array<int, threads>{1, 1}));
    EXPECT_EQ(most, (std::array<int, threads>{1, 1}));
    EXPECT_EQ(lanes, (std::array<int, threads>{1, 1}));
}

TEST_F(ThreadTeamTest, stands_aside_while_cores_are_shared) {
    {
        const ShortWaits waits(threads);
        EXPECT_FALSE(ThreadTeam::ready(threads));
    }
    EXPECT_TRUE(ThreadTeam::ready(threads));
}

TEST_F(ThreadTeamTest, is_for_its_maker_and_no_more_callers_than_it_has) {
    EXPECT_FALSE(ThreadTeam::ready(1));
    EXPECT_FALSE(ThreadTeam::ready(threads + 1));
    bool others = true;
    std::thread([&] { others = ThreadTeam::ready(threads) != nullptr; }).join();
    EXPECT_FALSE(others);
}

TEST_F(ThreadTeamTest, the_latest_of_a_thread_counts_and_its_end_leaves_none) {
    ThreadTeam* const first = ThreadTeam::ready(threads);
    {
        const WaitPolicy none(nullptr);
        ThreadTeam second(threads, threads);
        pass_step(second);
        EXPECT_EQ(ThreadTeam::ready(threads), &second);
        run_together(threads, [](int, int) {});
    }
    EXPECT_FALSE(ThreadTeam::ready(threads));
    EXPECT_NE(first, nullptr);
    run_together(threads, [](int, int) {});  // by OpenMP's
}

TEST(ThreadTeamSize, there_is_none_of_one_thread_of_too_many_and_of_more_than_cores) {
    const WaitPolicy none(nullptr);
    for (const int threads : {1, 9, omp_get_num_procs() + 1}) {
        ThreadTeam team(threads);
        pass_step(team);
        for (int callers = 1; callers <= threads; ++callers) EXPECT_FALSE(ThreadTeam::ready(callers));
    }
}

// Who is late finds the next job, whichever that is: with fewer callers than threads some have none.
TEST(ThreadTeamSize, callers_may_be_fewer_than_threads) {
    constexpr int threads = 4;
    const WaitPolicy none(nullptr);
    ThreadTeam team(threads, threads);
    pass_step(team);
    if (!ThreadTeam::ready(threads)) GTEST_SKIP() << "OpenMP binds threads here";
    std::vector<std::int64_t> calls(static_cast<std::size_t>(threads));
    std::vector<std::int64_t> expected = calls;
    for (int region = 0; region < 3000; ++region) {
        const int callers = 2 + region % (threads - 1);
        for (int caller = 0; caller < callers; ++caller) ++expected[static_cast<std::size_t>(caller)];
        run_together(callers, [&](int caller, int) { ++calls[static_cast<std::size_t>(caller)]; });
        ASSERT_EQ(calls, expected);
    }
}

}  // namespace
}  // namespace tutti
