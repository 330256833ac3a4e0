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

TEST(launch_world_size, with_a_rank_may_be_left_over_from_a_shell) {
    EXPECT_FALSE(mismatch_before_start({{"RANK", "0"}, {"WORLD_SIZE", "4"}}));
}

TEST(launch_world_size, does_not_count_where_a_launcher_speaks) {
    EXPECT_FALSE(mismatch_before_start(
        {{"WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}}));
    EXPECT_FALSE(
        mismatch_before_start({{"WORLD_SIZE", "4"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"PMI_FD", "9"}}));
    EXPECT_FALSE(mismatch_before_start({{"WORLD_SIZE", "4"}, {"PMIX_RANK", "0"}}));
}

TEST(launch_world_size, may_be_for_the_steps_of_a_slurm_job) {
    EXPECT_FALSE(mismatch_before_start({{"WORLD_SIZE", "4"}, {"SLURM_JOB_ID", "17"}, {"SLURM_NTASKS", "4"}}));
}

}  // namespace
}  // namespace tutti
