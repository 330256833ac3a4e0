#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temp_dir.hpp"
#include "tutti/base/memory_use.hpp"

namespace tutti {
namespace {

/// A directory with what Linux shows in /proc and /sys.
class AvailableBytes : public testing::Test {
  protected:
    void write(const std::string& path, const std::string& text) const {
        const std::filesystem::path whole = dir_.path() + "/" + path;
        std::filesystem::create_directories(whole.parent_path());
        std::ofstream(whole) << text;
    }
    void host_has(std::int64_t kilobytes) const {
        write("proc/meminfo", "MemTotal:       99999999 kB\nMemFree:          11 kB\nMemAvailable:   " +
                                  std::to_string(kilobytes) + " kB\nBuffers:         7 kB\n");
    }
    /// A group of version 2.
    void group(const std::string& path, const std::string& most, std::int64_t used, std::int64_t inactive = 0,
               std::int64_t active = 0) const {
        const std::string at = "sys/fs/cgroup" + path;
        write(at + "/memory.max", most + "\n");
        write(at + "/memory.current", std::to_string(used) + "\n");
        write(at + "/memory.stat", "anon 5\nfile 6\ninactive_anon 7\ninactive_file " +
                                       std::to_string(inactive) + "\nactive_file " + std::to_string(active) +
                                       "\n");
    }
    std::optional<std::int64_t> found() const { return available_bytes(dir_.path()); }

    test::TempDir dir_;
};

TEST_F(AvailableBytes, TellsWhetherAGroupLimitsThem) {
    host_has(1000);
    EXPECT_FALSE(group_limits_memory(dir_.path()));
    write("proc/self/cgroup", "0::/job/step\n");
    group("/job", "max", 1);
    group("/job/step", "max", 1);
    EXPECT_FALSE(group_limits_memory(dir_.path()));
    group("/job", "5000", 1);
    EXPECT_TRUE(group_limits_memory(dir_.path()));

    write("proc/self/cgroup", "4:memory:/job\n");
    write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1\n");
    write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    EXPECT_FALSE(group_limits_memory(dir_.path()));
    write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "5000\n");
    EXPECT_TRUE(group_limits_memory(dir_.path()));
}

TEST_F(AvailableBytes, IsNothingWhereNothingIsTold) {
    EXPECT_EQ(found(), std::nullopt);
}

TEST_F(AvailableBytes, IsTheHostsWithoutControlGroups) {
    host_has(4000);
    EXPECT_EQ(found(), 4'096'000);
}

TEST_F(AvailableBytes, IsWhatTheGroupsLimitLeaves) {
    host_has(4000);
    write("proc/self/cgroup", "0::/job\n");
    group("/job", "1000000", 400'000);
    EXPECT_EQ(found(), 600'000);
}

TEST_F(AvailableBytes, IsTheHostsWhereTheLimitLeavesMore) {
    host_has(4000);
    write("proc/self/cgroup", "0::/job\n");
    group("/job", "9000000", 400'000);
    EXPECT_EQ(found(), 4'096'000);
    group("/job", "max", 400'000);
    EXPECT_EQ(found(), 4'096'000);
}

TEST_F(AvailableBytes, FilesInMemoryOfTheGroupAreFree) {
    write("proc/self/cgroup", "0::/job\n");
    group("/job", "1000000", 900'000, 300'000, 20'000);
    EXPECT_EQ(found(), 420'000);
    group("/job", "1000000", 900'000, 900'000, 20'000);
    EXPECT_EQ(found(), 1'000'000) << "the numbers are not of one moment";
}

TEST_F(AvailableBytes, IsZeroAboveTheLimit) {
    write("proc/self/cgroup", "0::/job\n");
    group("/job", "1000000", 1'200'000);
    EXPECT_EQ(found(), 0);
}

TEST_F(AvailableBytes, TheLowerOfTheHardAndTheThrottlingLimitCounts) {
    write("proc/self/cgroup", "0::/job\n");
    group("/job", "1000000", 100'000);
    write("sys/fs/cgroup/job/memory.high", "700000\n");
    EXPECT_EQ(found(), 600'000);
    write("sys/fs/cgroup/job/memory.high", "max\n");
    EXPECT_EQ(found(), 900'000);
}

TEST_F(AvailableBytes, WhatCanBeHadAtAllKnowsNoThrottlingLimitButSwap) {
    EXPECT_EQ(obtainable_bytes(dir_.path()), std::nullopt);
    write("proc/meminfo", "MemAvailable: 4000 kB\nSwapTotal: 3000 kB\nSwapFree: 1000 kB\n");
    EXPECT_EQ(obtainable_bytes(dir_.path()), 5'120'000);
    EXPECT_EQ(found(), 4'096'000);
    write("proc/self/cgroup", "0::/job\n");
    group("/job", "1000000", 100'000);
    write("sys/fs/cgroup/job/memory.high", "700000\n");
    EXPECT_EQ(obtainable_bytes(dir_.path()), 900'000 + 1'024'000);
    write("sys/fs/cgroup/job/memory.swap.max", "50000\n");
    write("sys/fs/cgroup/job/memory.swap.current", "20000\n");
    EXPECT_EQ(obtainable_bytes(dir_.path()), 900'000 + 30'000);
    write("sys/fs/cgroup/job/memory.swap.max", "0\n");
    EXPECT_EQ(obtainable_bytes(dir_.path()), 900'000);
}

TEST_F(AvailableBytes, GroupsAroundTheGroupCount) {
    host_has(4000);
    write("proc/self/cgroup", "0::/slurm/job_7/step_0/task_1\n");
    group("/slurm/job_7/step_0/task_1", "max", 100'000);
    group("/slurm/job_7", "1000000", 300'000);  // and none of its own at step_0
    group("/slurm", "2000000", 1'500'000);
    EXPECT_EQ(found(), 500'000);
    group("/slurm", "2000000", 200'000);
    EXPECT_EQ(found(), 700'000);
}

TEST_F(AvailableBytes, AContainersOwnGroupIsTheOutermost) {
    write("proc/self/cgroup", "0::/docker/abc\n");
    group("", "1000000", 300'000);
    EXPECT_EQ(found(), 700'000);
    write("proc/self/cgroup", "0::/\n");
    EXPECT_EQ(found(), 700'000);
}

TEST_F(AvailableBytes, IsWhatTheLimitOfVersion1Leaves) {
    host_has(4000);
    write("proc/self/cgroup",
          "11:cpu,cpuacct:/other\n4:hugetlb,memory:/slurm/job_7\n1:name=systemd:/a:b\n0::/\n");
    const std::string job = "sys/fs/cgroup/memory/slurm/job_7/";
    write(job + "memory.limit_in_bytes", "1000000\n");
    write(job + "memory.usage_in_bytes", "800000\n");
    write(job + "memory.stat",
          "inactive_file 1\nactive_file 2\ntotal_inactive_file 100000\ntotal_active_file 20000\n");
    EXPECT_EQ(found(), 320'000);
    // Of a group without a limit.
    write(job + "memory.limit_in_bytes", "9223372036854771712\n");
    EXPECT_EQ(found(), 4'096'000);
}

}  // namespace
}  // namespace tutti
