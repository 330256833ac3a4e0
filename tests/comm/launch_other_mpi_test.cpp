// Launchers that bring several ranks where MPI sees one, or that start other launchers.
#include <gtest/gtest.h>

#include "tutti/comm/launch.hpp"

namespace tutti {
namespace {

TEST(launch_other_mpi, ranks_of_another_mpis_launcher_do_not_train_alone) {
    const Environment mpirun = {
        {"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "2"}};
    const Environment hydra = {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"PMI_FD", "9"}};
    for (const Environment& environment : {mpirun, hydra}) {
        const auto message = mismatch_with_mpi(environment, 1);
        ASSERT_TRUE(message);
        EXPECT_NE(message->find(" started 4 ranks, but MPI sees 1: every rank would train alone"),
                  std::string::npos)
            << *message;
        EXPECT_NE(message->find("start it with: the mpirun or mpiexec of that MPI"), std::string::npos)
            << *message;
        EXPECT_FALSE(mismatch_with_mpi(environment, 4));
    }
}

// One torchrun on each host: the ranks are its, mpirun's is the agent's.
TEST(launch_other_mpi, mpirun_of_agents_of_torchrun_is_torchrun) {
    Environment environment = {{"TORCHELASTIC_RUN_ID", "none"},
                               {"RANK", "3"},
                               {"WORLD_SIZE", "4"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"GROUP_RANK", "1"},
                               {"GROUP_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_COMM_WORLD_SIZE", "2"}};
    const LaunchFacts facts = read_launch(environment);
    EXPECT_EQ(facts.launcher, Launcher::torchrun);
    EXPECT_EQ(facts.rank, 3);
    EXPECT_EQ(facts.world_size, 4);
    EXPECT_EQ(bootstrap_of(environment), Bootstrap::rendezvous);
    environment["OMPI_COMM_WORLD_RANK"] = "0";  // of another launch than the agent's
    EXPECT_EQ(read_launch(environment).launcher, Launcher::mpirun);
}

}  // namespace
}  // namespace tutti
