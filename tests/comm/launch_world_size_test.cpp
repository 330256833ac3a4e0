// WORLD_SIZE without RANK: a launch by hand that forgot something.
#include <gtest/gtest.h>

#include "tutti/comm/launch.hpp"

namespace tutti {
namespace {

TEST(launch_world_size, without_a_rank_does_not_train_alone) {
    EXPECT_EQ(mismatch_before_start({{"WORLD_SIZE", "4"}}),
              "WORLD_SIZE is 4, but RANK is not set: every process would train alone; set RANK, MASTER_ADDR "
              "and MASTER_PORT, start it with: mpirun -np 4 trainer …, or unset WORLD_SIZE to train alone");
}

TEST(launch_world_size, of_one_or_of_no_number_is_plain_use) {
    EXPECT_FALSE(mismatch_before_start({}));
    EXPECT_FALSE(mismatch_before_start({{"WORLD_SIZE", "1"}}));
    EXPECT_FALSE(mismatch_before_start({{"WORLD_SIZE", "many"}}));
}

TEST(launch_world_size, with_a_rank_but_no_meeting_point_does_not_train_alone) {
    const std::string remedy =
        " not set: every process would train alone; set MASTER_ADDR to the host of rank 0 and MASTER_PORT to "
        "a "
        "free port there, the same on every rank, start it with: mpirun -np 4 trainer …, or unset RANK and "
        "WORLD_SIZE to train alone";
    const std::string start = "RANK is 0 and WORLD_SIZE 4, but ";
    EXPECT_EQ(mismatch_before_start({{"RANK", "0"}, {"WORLD_SIZE", "4"}}),
              start + "MASTER_ADDR and MASTER_PORT are" + remedy);
    EXPECT_EQ(mismatch_before_start({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "29500"}}),
              start + "MASTER_ADDR is" + remedy);
    EXPECT_EQ(mismatch_before_start({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node0"}}),
              start + "MASTER_PORT is" + remedy);
}

TEST(launch_world_size, with_a_port_that_is_none_names_it) {
    for (const std::string port : {"abc", "0", "65536", "-1", "29500 "})
        EXPECT_EQ(mismatch_before_start(
                      {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", port}}),
                  "MASTER_PORT=" + port +
                      " is not a port from 1 to 65535; set both (a host name, a port from 1 to 65535), or "
                      "start it with: mpirun -np 4 trainer …");
    // Where the port is one, or none is said, it is the pair that does not say where.
    for (const char* port : {"29500", ""})
        EXPECT_NE(mismatch_before_start(
                      {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", ""}, {"MASTER_PORT", port}})
                      .value_or("")
                      .find("do not say where they meet"),
                  std::string::npos);
}

TEST(launch_world_size, with_a_rank_that_cannot_be_does_not_train_alone) {
    for (const char* rank : {"4", "-1", "", "abc"}) {
        const auto message = mismatch_before_start({{"RANK", rank}, {"WORLD_SIZE", "4"}});
        ASSERT_TRUE(message) << rank;
        EXPECT_NE(message->find("ranks are 0 to WORLD_SIZE - 1"), std::string::npos) << *message;
    }
}

TEST(launch_world_size, is_missed_where_a_rank_and_a_meeting_point_are_given) {
    EXPECT_EQ(mismatch_before_start({{"RANK", "1"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}}),
              "RANK is 1 and MASTER_ADDR node0, but WORLD_SIZE is not set: every process would train alone; "
              "set it to the number of ranks, or unset RANK to train alone");
    EXPECT_FALSE(mismatch_before_start({{"RANK", "1"}}));
    EXPECT_FALSE(mismatch_before_start({{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}}));
}

TEST(launch_world_size, of_one_with_a_rank_is_plain_use) {
    EXPECT_FALSE(mismatch_before_start({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
    EXPECT_FALSE(mismatch_before_start({{"RANK", "0"}, {"WORLD_SIZE", "many"}}));
}

TEST(launch_world_size, with_a_rank_counts_in_a_slurm_step_of_one_task) {
    const Environment shell = {{"SLURM_JOB_ID", "17"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}};
    Environment rank = {{"RANK", "1"}, {"WORLD_SIZE", "2"}};
    rank.insert(shell.begin(), shell.end());
    EXPECT_TRUE(mismatch_before_start(rank));
    Environment size = {{"WORLD_SIZE", "2"}};
    size.insert(shell.begin(), shell.end());
    EXPECT_FALSE(mismatch_before_start(size));
}

TEST(launch_world_size, does_not_count_where_a_launcher_speaks) {
    EXPECT_FALSE(mismatch_before_start(
        {{"WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}}));
    EXPECT_FALSE(
        mismatch_before_start({{"WORLD_SIZE", "4"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"PMI_FD", "9"}}));
    EXPECT_FALSE(mismatch_before_start({{"WORLD_SIZE", "4"}, {"PMIX_RANK", "0"}}));
    const Environment given = {{"RANK", "3"}, {"WORLD_SIZE", "4"}};
    const std::vector<Environment> launchers = {
        {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
        {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", "9"}},
        {{"PMIX_RANK", "0"}},
        {{"SLURM_JOB_ID", "17"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_RANK", "1"}}};
    for (Environment launcher : launchers) {
        launcher.insert(given.begin(), given.end());
        EXPECT_FALSE(mismatch_before_start(launcher));
    }
}

TEST(launch_world_size, may_be_for_the_steps_of_a_slurm_job) {
    EXPECT_FALSE(mismatch_before_start({{"WORLD_SIZE", "4"}, {"SLURM_JOB_ID", "17"}, {"SLURM_NTASKS", "4"}}));
}

TEST(launch_world_size, of_a_step_alone_proves_a_mismatch) {
    Environment step = {{"SLURM_STEP_NUM_TASKS", "4"}};
    EXPECT_TRUE(mismatch_with_mpi(step, 1));
    EXPECT_FALSE(mismatch_with_mpi(step, 4));
    EXPECT_FALSE(mismatch_with_mpi({{"SLURM_STEP_NUM_TASKS", "1"}}, 1));
    // mpirun's processes have the step's variables, too, whatever else of mpirun's is there.
    step["OMPI_COMM_WORLD_SIZE"] = "1";
    EXPECT_FALSE(mismatch_with_mpi(step, 1));
}

}  // namespace
}  // namespace tutti
