#include "start_watch.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_dir.hpp"
#include "suspension.hpp"

namespace tutti {
namespace {

/// A /proc of processes that the test makes up; process 20 is "this" one.
class StartWatchTest : public testing::Test {
  protected:
    StartWatchTest() {
        process(10, "mpirun", 1, {});
        process(20, "trainer", 10, rank(0));
        std::filesystem::create_directory(proc() / "self");
        std::ofstream(proc() / "self/stat") << "20 (trainer) S 10 20";
    }

    std::filesystem::path proc() const { return folder_.path(); }

    static Environment rank(int number, const std::string& job = "77@1") {
        return {{"PMIX_NAMESPACE", job},
                {"PMIX_RANK", std::to_string(number)},
                {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};
    }

    void process(int number, const std::string& name, int parent, const Environment& environment,
                 char state = 'S') const {
        const auto path = proc() / std::to_string(number);
        std::filesystem::create_directory(path);
        std::ofstream(path / "stat") << number << " (" << name << ") " << state << " " << parent
                                     << " 20 20 0";
        std::ofstream file(path / "environ");
        for (const auto& [key, value] : environment) file << key << "=" << value << '\0';
    }

    /// Gives a process a thread of that name.
    void thread(int number, const std::string& name) const {
        const auto path = proc() / std::to_string(number) / "task" / std::to_string(number + 1000);
        std::filesystem::create_directories(path);
        std::ofstream(path / "comm") << name << "\n";
    }

    std::string left() const { return ranks_left_on_host(rank(0), proc()); }
    std::string late() const { return late_ranks_on_host(rank(0), proc()); }

  private:
    test::TempDir folder_;
};

TEST_F(StartWatchTest, says_nothing_while_all_ranks_are_there) {
    process(21, "trainer", 10, rank(1));
    process(30, "sh", 10, rank(2));  // a wrapper, with its trainer
    process(31, "trainer", 30, rank(2));
    EXPECT_EQ(left(), "");
}

TEST_F(StartWatchTest, names_those_that_are_left) {
    process(22, "tr) ai (ner", 10, rank(2));
    EXPECT_EQ(left(), "ranks 0, 2 of the 3");
}

TEST_F(StartWatchTest, counts_no_rank_of_another_job) {
    process(21, "trainer", 11, rank(1, "78@1"));
    process(22, "trainer", 11, rank(2, "78@1"));
    EXPECT_EQ(left(), "rank 0 of the 3");
}

TEST_F(StartWatchTest, waits_for_a_process_that_has_yet_to_become_a_rank) {
    process(21, "mpirun", 10, {{"HOME", "/root"}});
    EXPECT_EQ(left(), "");
    process(21, "starter-suid", 10, {});  // nobody may read its environment
    EXPECT_EQ(left(), "");
    process(21, "ssh", 10, {{"HOME", "/root"}});
    EXPECT_EQ(left(), "rank 0 of the 3");
}

TEST_F(StartWatchTest, says_nothing_where_the_launcher_cannot_be_seen) {
    process(10, "appinit", 0, rank(0));
    EXPECT_EQ(left(), "");
}

TEST_F(StartWatchTest, says_nothing_without_a_count_of_ranks) {
    EXPECT_EQ(ranks_left_on_host({{"PMIX_NAMESPACE", "77@1"}}, proc()), "");
    EXPECT_EQ(ranks_left_on_host({{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}}, proc()), "");
}

TEST_F(StartWatchTest, names_a_rank_that_has_not_come_by_what_it_runs) {
    thread(20, waiting_thread);
    process(21, "sh", 10, rank(1));
    process(31, "sleep", 21, rank(1));
    thread(31, "sleep");
    EXPECT_EQ(late(), "rank 1, process 31 (sleep), has not called it");
    process(22, "trainer", 10, rank(2), 'T');  // stopped tells more
    EXPECT_EQ(late(), "rank 2, process 22, is stopped");
}

TEST_F(StartWatchTest, says_that_all_of_this_host_wait) {
    thread(20, waiting_thread);
    EXPECT_EQ(late(), "rank 0 of this host waits there, the others are missing");
    process(21, "sh", 10, rank(1));
    process(31, "trainer", 21, rank(1));
    thread(31, waiting_thread);
    process(22, "trainer", 10, rank(2, "78@1"));  // of another job
    EXPECT_EQ(late(), "ranks 0, 1 of this host wait there, the others are missing");
    EXPECT_EQ(late_ranks_on_host({}, proc()), "");
}

TEST(LooksInARow, are_certain_after_three_that_show_the_same) {
    LooksInARow looks;
    EXPECT_FALSE(looks.certain_after("rank 0 of the 2"));
    EXPECT_FALSE(looks.certain_after("rank 0 of the 2"));
    EXPECT_TRUE(looks.certain_after("rank 0 of the 2"));
    EXPECT_TRUE(looks.certain_after("rank 0 of the 2"));
}

TEST(LooksInARow, begin_anew_where_all_are_there_or_others_are_missing) {
    LooksInARow looks;
    for (const char* left : {"rank 0 of the 3", "rank 0 of the 3", "", "rank 0 of the 3", "rank 0 of the 3",
                             "ranks 0, 2 of the 3", "ranks 0, 2 of the 3", "rank 0 of the 3", "", "", "", ""})
        EXPECT_FALSE(looks.certain_after(left)) << left;
}

// A watch that counts it ends this process.
TEST(StartWatch, time_in_which_the_process_was_suspended_does_not_count) {
    test::Suspension suspension([looks = 0]() mutable { return ++looks == 2; });
    StartPatience patience;
    patience.mpi_init = 30;
    const StartWatch watch({}, patience, suspension.clock());
    suspension.wait_for_looks(3);
}

TEST_F(StartWatchTest, sees_the_launcher_above_this_process_and_no_other) {
    EXPECT_TRUE(runs_below(Launcher::mpirun, proc()));
    EXPECT_FALSE(runs_below(Launcher::srun, proc()));
    EXPECT_FALSE(runs_below(Launcher::by_hand, proc()));
    process(5, "slurmstepd", 1, {});
    process(15, "bash", 5, {});
    process(20, "trainer", 15, {});
    EXPECT_FALSE(runs_below(Launcher::mpirun, proc())) << "another's";
    EXPECT_TRUE(runs_below(Launcher::srun, proc()));
}

}  // namespace
}  // namespace tutti
