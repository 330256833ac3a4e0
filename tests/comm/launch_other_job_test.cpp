#include <gtest/gtest.h>

#include "tutti/comm/launch.hpp"

namespace tutti::test {
namespace {

Environment changed(Environment base, const Environment& more) {
    for (const auto& [name, text] : more) base[name] = text;
    return base;
}

TEST(launch_other_job, variables_of_a_step_that_called_sbatch_are_found) {
    const Environment step{{"SLURM_JOB_ID", "7"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"},
                           {"PMIX_RANK", "1"},    {"SLURM_STEP_NUM_TASKS", "4"},
                           {"SLURM_STEPID", "0"}, {"SLURM_PROCID", "1"}};
    EXPECT_TRUE(variables_of_another_job(step).empty());
    EXPECT_EQ(
        variables_of_another_job(changed(step, {{"SLURM_JOB_ID", "70"}})),
        (std::vector<std::string>{"PMIX_NAMESPACE", "PMIX_RANK", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"}));
    EXPECT_TRUE(
        variables_of_another_job(changed(step, {{"SLURM_JOB_ID", "8"}, {"SLURM_HET_SIZE", "2"}})).empty());
    EXPECT_TRUE(variables_of_another_job(changed(step, {{"PMIX_NAMESPACE", "1234"}})).empty()) << "mpirun's";
    EXPECT_TRUE(variables_of_another_job({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_NUM_TASKS", "4"}}).empty());
    EXPECT_EQ(variables_of_another_job(
                  {{"SLURM_JOB_ID", "8"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}, {"PMIX_MCA_gds", "hash"}}),
              (std::vector<std::string>{"PMIX_NAMESPACE"}))
        << "and not what the site sets";
}

}  // namespace
}  // namespace tutti::test
