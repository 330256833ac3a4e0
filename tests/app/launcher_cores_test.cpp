// Which cores mpirun might have given its ranks.
#include "doctor/launcher_cores.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temp_dir.hpp"

namespace tutti::doctor {
namespace {

using Cores = std::vector<int>;

/// A machine of five cores as /proc and /sys show it: this process, 20, in a wrapper below mpirun.
class LauncherCores : public testing::Test {
  protected:
    LauncherCores() {
        process(10, "mpirun", 1, "0-3,8");
        process(15, "sh", 10, "0");
        process(20, "trainer", 15, "0");
        write("proc/self/stat", "20 (trainer) S 15 20");
        write("proc/self/cgroup", "0::/job/step\n");
    }
    void write(const std::string& path, const std::string& text) const {
        const std::filesystem::path whole = folder_.path() + "/" + path;
        std::filesystem::create_directories(whole.parent_path());
        std::ofstream(whole) << text;
    }
    void process(int number, const std::string& name, int parent, const std::string& cores) const {
        const std::string at = "proc/" + std::to_string(number);
        write(at + "/stat", std::to_string(number) + " (" + name + ") S " + std::to_string(parent) + " 20");
        write(at + "/status", "Name:\t" + name + "\nThreads:\t2\nCpus_allowed:\t10f\nCpus_allowed_list:\t" +
                                  cores + "\nMems_allowed_list:\t0\n");
    }
    Cores found(const Environment& more = {}) const {
        Environment environment = {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
        environment.insert(more.begin(), more.end());
        return launcher_cores(environment, folder_.path());
    }

  private:
    test::TempDir folder_;
};

TEST_F(LauncherCores, AreThoseOfTheNearestMpirunAbove) {
    EXPECT_EQ(found(), (Cores{0, 1, 2, 3, 8}));
    process(12, "orted", 10, "4-5");
    process(15, "sh", 12, "4");
    EXPECT_EQ(found(), (Cores{4, 5}));
}

TEST_F(LauncherCores, AreNotKnownWithoutOne) {
    process(10, "bash", 1, "0-3,8");
    EXPECT_EQ(found(), Cores{});
    EXPECT_EQ(launcher_cores({}, "/nowhere"), Cores{});
}

TEST_F(LauncherCores, AreNotKnownUnderAQuotaOfTime) {
    for (const char* group : {"", "/job", "/job/step"}) {
        write(std::string("sys/fs/cgroup") + group + "/cpu.max", "200000 100000\n");
        EXPECT_EQ(found(), Cores{}) << group;
        write(std::string("sys/fs/cgroup") + group + "/cpu.max", "max 100000\n");
        EXPECT_EQ(found().size(), 5U) << group;
    }
    write("proc/self/cgroup", "4:cpu,cpuacct:/job\n0::/\n");
    write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    EXPECT_EQ(found().size(), 5U);
    write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
    EXPECT_EQ(found(), Cores{});
}

TEST_F(LauncherCores, AreThoseThatABatchSystemGivesOrNotKnown) {
    const auto slurm = [](const char* cpus) {
        return Environment{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_CPUS_PER_NODE", cpus}};
    };
    EXPECT_EQ(found(slurm("5(x2)")).size(), 5U);
    EXPECT_EQ(found(slurm("64,5(x3)")).size(), 5U);
    for (const char* cpus : {"2", "64(x2),4", "", "x"}) EXPECT_EQ(found(slurm(cpus)), Cores{}) << cpus;
    EXPECT_EQ(found({{"SLURM_JOB_ID", "7"}}), Cores{});
    EXPECT_EQ(found({{"PBS_JOBID", "7"}}), Cores{});
}

}  // namespace
}  // namespace tutti::doctor
