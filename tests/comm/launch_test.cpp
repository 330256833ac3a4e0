#include "tutti/comm/launch.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tutti::test {
namespace {

using Number = std::optional<int>;

const Environment slurm_job = {{"SLURM_JOB_ID", "7"},  {"SLURM_PROCID", "0"},
                               {"SLURM_NTASKS", "4"},  {"SLURM_NNODES", "2"},
                               {"SLURM_LOCALID", "0"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}};
const Environment srun_none = {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "3"},         {"SLURM_LOCALID", "1"},
                               {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_ID", "0"}};
const Environment mpirun_of_4 = {{"OMPI_COMM_WORLD_RANK", "2"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                 {"PMIX_RANK", "2"}};
const Environment torchrun_of_4 = {
    {"TORCHELASTIC_RUN_ID", "none"}, {"RANK", "3"},           {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"},
    {"LOCAL_WORLD_SIZE", "2"},       {"MASTER_ADDR", "node0"}};

Environment with(Environment base, const Environment& more) {
    for (const auto& [name, text] : more) base[name] = text;
    return base;
}

struct Launch {
    const char* name;
    Environment environment;
    Launcher launcher;
    Number rank, world_size, local_rank, local_size;
    bool inside_slurm_job;
    /// What MPI sees, and a part of the message if the environment, or then MPI's size, proves a mismatch.
    int mpi_size;
    const char* before_start;
    const char* with_mpi;
};

// One row for everything that was seen to start a rank.
const std::vector<Launch> launches = {
    {"plain", {{"HOME", "/root"}}, Launcher::plain, {}, {}, {}, {}, false, 1, nullptr, nullptr},
    {"mpirun", mpirun_of_4, Launcher::mpirun, 2, 4, 0, 2, false, 4, nullptr, nullptr},
    {"mpirun_of_one",
     {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}},
     Launcher::mpirun,
     0,
     1,
     {},
     {},
     false,
     1,
     nullptr,
     nullptr},
    {"srun_pmix",
     with(srun_none, {{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}}),
     Launcher::srun,
     3,
     4,
     1,
     {},
     true,
     4,
     nullptr,
     nullptr},
    {"srun_pmix_but_mpi_alone",
     with(srun_none, {{"PMIX_RANK", "3"}}),
     Launcher::srun,
     3,
     4,
     1,
     {},
     true,
     1,
     nullptr,
     "srun started 4 tasks, but MPI sees 1"},
    {"srun_pmi2",
     with(srun_none, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_FD", "9"}}),
     Launcher::srun,
     3,
     4,
     1,
     {},
     true,
     4,
     nullptr,
     nullptr},
    {"srun_pmi2_but_mpi_alone",
     with(srun_none, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_FD", "9"}}),
     Launcher::srun,
     3,
     4,
     1,
     {},
     true,
     1,
     nullptr,
     "srun started 4 tasks, but MPI sees 1"},
    {"srun_none",
     srun_none,
     Launcher::srun,
     3,
     4,
     1,
     {},
     true,
     1,
     "srun started 4 ranks without MPI",
     "srun started 4 tasks, but MPI sees 1"},
    {"srun_of_one",
     with(srun_none, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}),
     Launcher::srun,
     0,
     1,
     1,
     {},
     true,
     1,
     nullptr,
     nullptr},
    {"plain_in_an_sbatch_script", slurm_job, Launcher::plain, {}, {}, {}, {}, true, 1, nullptr, nullptr},
    {"mpirun_in_sbatch", with(slurm_job, mpirun_of_4), Launcher::mpirun, 2, 4, 0, 2, true, 4, nullptr,
     nullptr},
    {"mpirun_in_sbatch_on_another_host",
     with(with(slurm_job, {{"SLURM_NTASKS", "1"}, {"SLURM_NNODES", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}}),
          mpirun_of_4),
     Launcher::mpirun, 2, 4, 0, 2, true, 4, nullptr, nullptr},
    {"mpirun_of_one_in_a_step_of_several",
     with(srun_none, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}),
     Launcher::mpirun,
     0,
     1,
     {},
     {},
     true,
     1,
     nullptr,
     nullptr},
    {"torchrun", torchrun_of_4, Launcher::torchrun, 3, 4, 1, 2, false, 1,
     "torchrun started 4 ranks without MPI", nullptr},
    {"torchrun_of_one", with(torchrun_of_4, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}), Launcher::torchrun, 0, 1,
     1, 2, false, 1, nullptr, nullptr},
    {"srun_torchrun",
     with(with(srun_none, {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_RANK", "1"}}),
          torchrun_of_4),
     Launcher::torchrun, 3, 4, 1, 2, true, 2, "mpirun -np 4", nullptr},
    {"mpirun_under_torchrun_exports", with(torchrun_of_4, mpirun_of_4), Launcher::mpirun, 2, 4, 0, 2, false,
     4, nullptr, nullptr},
    {"by_hand_without_a_meeting_point",
     {{"RANK", "3"}, {"WORLD_SIZE", "4"}},
     Launcher::plain,
     {},
     {},
     {},
     {},
     false,
     1,
     "MASTER_ADDR and MASTER_PORT are not set",
     nullptr},
    {"by_hand",
     {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}, {"LOCAL_RANK", "0"}},
     Launcher::by_hand,
     1,
     2,
     0,
     {},
     false,
     1,
     nullptr,
     nullptr},
    {"by_hand_in_a_step_of_one",
     with(srun_none, {{"SLURM_PROCID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "1"},
                      {"PMIX_RANK", "0"},
                      {"RANK", "1"},
                      {"WORLD_SIZE", "2"},
                      {"MASTER_ADDR", "a"},
                      {"MASTER_PORT", "1"}}),
     Launcher::by_hand,
     1,
     2,
     {},
     {},
     true,
     1,
     nullptr,
     nullptr},
    {"srun_pmix_with_left_over_rank",
     with(srun_none, {{"PMIX_RANK", "3"},
                      {"RANK", "0"},
                      {"WORLD_SIZE", "8"},
                      {"MASTER_ADDR", "a"},
                      {"MASTER_PORT", "1"}}),
     Launcher::srun,
     3,
     4,
     1,
     {},
     true,
     4,
     nullptr,
     nullptr},
    {"srun_none_that_exports_rank",
     with(srun_none, {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}),
     Launcher::srun,
     3,
     4,
     1,
     {},
     true,
     1,
     nullptr,
     "srun started 4 tasks, but MPI sees 1"},
    {"mpirun_with_left_over_rank", with(mpirun_of_4, {{"RANK", "0"}, {"WORLD_SIZE", "8"}}), Launcher::mpirun,
     2, 4, 0, 2, false, 4, nullptr, nullptr},
    {"hydra",
     {{"PMI_RANK", "1"},
      {"PMI_SIZE", "3"},
      {"PMI_FD", "8"},
      {"MPI_LOCALRANKID", "1"},
      {"MPI_LOCALNRANKS", "3"}},
     Launcher::mpiexec_hydra,
     1,
     3,
     1,
     3,
     false,
     3,
     nullptr,
     nullptr},
    {"hydra_with_srun_as_its_agent",
     with(srun_none, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}}),
     Launcher::mpiexec_hydra,
     5,
     8,
     {},
     {},
     true,
     8,
     nullptr,
     nullptr},
    {"hydra_of_one_with_srun_as_its_agent",
     with(srun_none, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}),
     Launcher::mpiexec_hydra,
     0,
     1,
     {},
     {},
     true,
     1,
     nullptr,
     nullptr},
    {"text_is_no_number",
     {{"OMPI_COMM_WORLD_RANK", "abc"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
     Launcher::plain,
     {},
     {},
     {},
     {},
     false,
     1,
     nullptr,
     nullptr},
    {"negative_is_no_number",
     {{"OMPI_COMM_WORLD_RANK", "-1"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
     Launcher::plain,
     {},
     {},
     {},
     {},
     false,
     1,
     nullptr,
     nullptr},
    {"empty_is_no_number",
     with(srun_none, {{"SLURM_STEP_NUM_TASKS", ""}}),
     Launcher::plain,
     {},
     {},
     {},
     {},
     true,
     1,
     nullptr,
     nullptr},
    {"trailing_text_is_no_number",
     {{"PMI_RANK", "0"}, {"PMI_SIZE", "2x"}},
     Launcher::plain,
     {},
     {},
     {},
     {},
     false,
     1,
     nullptr,
     nullptr},
    {"huge_is_no_number",
     {{"PMI_RANK", "0"}, {"PMI_SIZE", "99999999999"}},
     Launcher::plain,
     {},
     {},
     {},
     {},
     false,
     1,
     nullptr,
     nullptr},
    {"a_rank_beyond_its_world",
     {{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}},
     Launcher::plain,
     {},
     {},
     {},
     {},
     false,
     1,
     nullptr,
     nullptr},
    {"malformed_local_facts_are_absent",
     with(mpirun_of_4, {{"OMPI_COMM_WORLD_LOCAL_RANK", ""}}),
     Launcher::mpirun,
     2,
     4,
     {},
     2,
     false,
     4,
     nullptr,
     nullptr},
};

class LaunchTable : public testing::TestWithParam<Launch> {};

void expect_message(const std::optional<std::string>& message, const char* part) {
    ASSERT_EQ(message.has_value(), part != nullptr) << message.value_or("no message");
    if (part == nullptr) return;
    EXPECT_NE(message->find(part), std::string::npos) << *message;
    EXPECT_NE(message->find("start it with: "), std::string::npos) << *message;
}

TEST_P(LaunchTable, gives_the_facts_of_the_launcher) {
    const Launch& row = GetParam();
    const LaunchFacts facts = read_launch(row.environment);
    EXPECT_EQ(to_string(facts.launcher), to_string(row.launcher));
    EXPECT_EQ(facts.rank, row.rank);
    EXPECT_EQ(facts.world_size, row.world_size);
    EXPECT_EQ(facts.local_rank, row.local_rank);
    EXPECT_EQ(facts.local_size, row.local_size);
    EXPECT_EQ(facts.inside_slurm_job, row.inside_slurm_job);
}

TEST_P(LaunchTable, proves_only_real_mismatches) {
    const Launch& row = GetParam();
    expect_message(mismatch_before_start(row.environment), row.before_start);
    expect_message(mismatch_with_mpi(row.environment, row.mpi_size), row.with_mpi);
}

INSTANTIATE_TEST_SUITE_P(launch, LaunchTable, testing::ValuesIn(launches),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(launch, mismatch_names_the_command_that_fixes_it) {
    EXPECT_EQ(
        mismatch_with_mpi(srun_none, 1),
        "srun started 4 tasks, but MPI sees 1: every task would train alone; start it with: srun --mpi=pmix "
        "--ntasks=4 trainer …");
    EXPECT_EQ(mismatch_before_start(srun_none),
              "srun started 4 ranks without MPI, and MASTER_ADDR and MASTER_PORT do not say where they meet; "
              "start it with: srun --mpi=pmix --ntasks=4 trainer …");
    EXPECT_EQ(
        mismatch_before_start(torchrun_of_4),
        "torchrun started 4 ranks without MPI, and MASTER_ADDR and MASTER_PORT do not say where they "
        "meet; set both (a host name, a port from 1 to 65535), or start it with: mpirun -np 4 trainer …");
}

TEST(launch, a_rank_by_hand_that_cannot_be_does_not_train_alone) {
    const Environment meeting = {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
    EXPECT_EQ(mismatch_before_start(with({{"RANK", "4"}, {"WORLD_SIZE", "4"}}, meeting)),
              "RANK is 4 and WORLD_SIZE 4, but ranks are 0 to WORLD_SIZE - 1; correct them, or unset both to "
              "train alone");
    EXPECT_FALSE(mismatch_before_start(with({{"RANK", "3"}, {"WORLD_SIZE", "4"}}, meeting)));
}

TEST(launch, ranks_meet_where_the_launcher_says) {
    const Environment master = {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
    const Environment list = {{"SLURM_STEP_NODELIST", "node[07-08],big1"}};
    const Environment step = with(srun_none, list);
    struct Row {
        const char* name;
        Environment environment;
        Bootstrap bootstrap;
        std::optional<MeetingPoint> point;
    };
    const std::vector<Row> rows = {
        {"torchrun", with(torchrun_of_4, master), Bootstrap::rendezvous,
         MeetingPoint{"node0", 29500, "29500/none///"}},
        {"torchrun's second attempt",
         with(with(torchrun_of_4, master), {{"TORCHELASTIC_RESTART_COUNT", "1"}}), Bootstrap::rendezvous,
         MeetingPoint{"node0", 29500, "29500/none/1//"}},
        {"srun torchrun", with(with(step, {{"PMIX_RANK", "1"}}), with(torchrun_of_4, master)),
         Bootstrap::rendezvous, MeetingPoint{"node0", 29500, "29500/none//7/"}},
        {"srun without PMIx", step, Bootstrap::rendezvous, MeetingPoint{"node07", 20070, "20070///7//0"}},
        {"srun without PMIx, told where", with(step, master), Bootstrap::rendezvous,
         MeetingPoint{"node0", 29500, "29500///7//0"}},
        {"srun with PMIx", with(step, {{"PMIX_RANK", "3"}}), Bootstrap::mpi, {}},
        {"by hand", with(master, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}), Bootstrap::rendezvous,
         MeetingPoint{"node0", 29500, "29500////"}},
        {"port 0",
         with(torchrun_of_4, {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "0"}}),
         Bootstrap::rendezvous,
         {}},
        {"port beyond",
         with(torchrun_of_4, {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "65536"}}),
         Bootstrap::rendezvous,
         {}},
        {"mpirun with left-over variables",
         with(mpirun_of_4, with(master, {{"RANK", "0"}})),
         Bootstrap::mpi,
         {}},
        {"plain", {{"HOME", "/root"}}, Bootstrap::mpi, {}},
    };
    for (const Row& row : rows) {
        EXPECT_EQ(bootstrap_of(row.environment), row.bootstrap) << row.name;
        if (row.bootstrap == Bootstrap::mpi) continue;
        EXPECT_EQ(meeting_point(row.environment), row.point) << row.name;
    }
}

TEST(launch, finds_the_first_host_of_a_slurm_list) {
    EXPECT_EQ(first_host("node1"), "node1");
    EXPECT_EQ(first_host("node1,node2"), "node1");
    EXPECT_EQ(first_host("node[03-07,9],gpu1"), "node03");
    EXPECT_EQ(first_host("node[5,9]"), "node5");
    EXPECT_EQ(first_host("rack[1-2]node[01-04]-ib,x"), "rack1node01-ib");
    EXPECT_EQ(first_host("node[1"), "");
    EXPECT_EQ(first_host(""), "");
}

TEST(launch, reads_the_environment_of_this_process) {
    ASSERT_EQ(setenv("TUTTI_LAUNCH_TEST", "a=b", 1), 0);
    EXPECT_EQ(current_environment().at("TUTTI_LAUNCH_TEST"), "a=b");
    unsetenv("TUTTI_LAUNCH_TEST");
    EXPECT_FALSE(current_environment().contains("TUTTI_LAUNCH_TEST"));
}

}  // namespace
}  // namespace tutti::test
