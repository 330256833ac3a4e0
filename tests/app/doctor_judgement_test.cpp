#include "doctor/judgement.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "doctor/report.hpp"

namespace tutti::doctor {
namespace {

/// Four healthy ranks on two hosts, each with a GPU of its own.
JobFacts healthy() {
    JobFacts job;
    job.launcher = "mpirun";
    for (int rank = 0; rank < 4; ++rank) {
        RankFacts one;
        one.rank = rank;
        one.host = rank < 2 ? "node1" : "node2";
        one.local_rank = rank % 2;
        one.gpu_name = "GPU";
        one.gpu_uuid = "GPU-" + std::to_string(rank);
        one.cores = {4 * one.local_rank, 4 * one.local_rank + 1};
        one.threads = 2;
        one.wanted_threads = 2;
        one.wanted_by = "OMP_NUM_THREADS";
        one.libraries = {{"MPI", "Open MPI v4.1.4"}, {"NCCL", "2.28.9"}};
        one.hdf5_locking = "on";
        one.shm_bytes = std::int64_t{1} << 30;
        one.interfaces = {"lo", "eth0", "ib0"};
        one.interface_variables = {{"NCCL_SOCKET_IFNAME", "ib0"}};
        one.clock_ahead = 0.01 * rank;
        job.ranks.push_back(one);
    }
    job.all_reduce = {"mpi", "shared memory", 1e-8, 1e-6, 64'000'000, 0.1, 0};
    return job;
}

struct Case {
    const char* name;
    std::function<void(JobFacts&)> spoil;
    const char* problem;            ///< its name; nullptr: still healthy
    std::vector<std::string> says;  ///< parts of what and fix
};

const std::vector<Case> cases = {
    {"healthy", [](JobFacts&) {}, nullptr, {}},
    {"one_rank_without_a_gpu",
     [](JobFacts& job) {
         job.ranks.resize(1);
         job.ranks[0].gpu_uuid = "";
     },
     nullptr,
     {}},
    {"ranks_without_gpus_share_none",
     [](JobFacts& job) {
         for (auto& one : job.ranks) one.gpu_uuid = "";
     },
     nullptr,
     {}},
    {"singletons",
     [](JobFacts& job) { job.launch_mismatch = "srun started 4 tasks, but MPI sees 1; start it with: srun"; },
     "singletons",
     {"srun started 4 tasks, but MPI sees 1", "start it with: srun"}},
    {"wrong_small_sums", [](JobFacts& job) { job.all_reduce.largest_error = 2e-6; }, "wrong-sums", {"2e-06"}},
    {"sums_that_are_no_numbers",
     [](JobFacts& job) { job.all_reduce.largest_error = std::numeric_limits<double>::quiet_NaN(); },
     "wrong-sums",
     {"nan"}},
    {"wrong_large_sums", [](JobFacts& job) { job.all_reduce.wrong = 3; }, "wrong-sums", {"64 MB", "3 wrong"}},
    {"other_version",
     [](JobFacts& job) { job.ranks[2].libraries["NCCL"] = "2.19.3"; },
     "library-mismatch",
     {"NCCL", "2.19.3 (rank 2 on node2)", "2.28.9 (rank 0 on node1)"}},
    {"library_that_one_rank_lacks",
     [](JobFacts& job) { job.ranks[3].libraries.erase("NCCL"); },
     "library-mismatch",
     {"none (rank 3 on node2)"}},
    {"two_ranks_on_one_gpu",
     [](JobFacts& job) { job.ranks[1].gpu_uuid = job.ranks[0].gpu_uuid; },
     "several-ranks-on-one-gpu",
     {"ranks 0, 1 on node1", "GPU-0", "--gpus-per-task=1"}},
    {"gpus_that_some_ranks_lack",
     [](JobFacts& job) {
         job.ranks[2].gpu_uuid = job.ranks[3].gpu_uuid = "";
         job.gpus.able_ranks = 2;
         job.gpus.why_cpu = "device: auto takes the CPU: rank 2 on node2: no GPU";
     },
     "gpus-not-used",
     {"there are GPUs, but device: auto takes the CPU: rank 2 on node2", "CUDA_VISIBLE_DEVICES="}},
    {"no_gpu_anywhere_is_no_problem",
     [](JobFacts& job) {
         for (auto& one : job.ranks) one.gpu_uuid = "";
         job.gpus.why_cpu = "device: auto takes the CPU: there is no NVIDIA driver";
     },
     nullptr,
     {}},
    {"gpus_that_cannot_be_taken",
     [](JobFacts& job) { job.gpus.refusal = "rank 1 on node1: cudaSetDevice failed: busy; look there"; },
     "gpus-not-taken",
     {"cudaSetDevice failed: busy [gpus-not-taken]", "fix: look there"}},
    {"a_shared_gpu_is_told_once",
     [](JobFacts& job) {
         job.ranks[1].gpu_uuid = job.ranks[0].gpu_uuid;
         job.gpus.refusal = "rank 0 and rank 1 on node1 would share the GPU GPU-0; start fewer";
     },
     "several-ranks-on-one-gpu",
     {}},
    {"sums_of_gpus",
     [](JobFacts& job) { job.gpus.all_reduce = {"nccl", "NCCL 2.28.9", 1e-8, 1e-6, 64'000'000, 0.001, 0}; },
     nullptr,
     {}},
    {"gpus_without_nccl",
     [](JobFacts& job) {
         job.gpus.why_no_nccl =
             "gradients go through host memory: no libnccl.so.2; install it (and 1 other rank)";
     },
     "no-nccl",
     {"no libnccl.so.2 (and 1 other rank) [no-nccl]", "fix: install it"}},
    {"gpus_that_do_not_reach_each_other",
     [](JobFacts& job) {
         job.gpus.failure = "ncclCommInitRank failed: system error; look at the network (and 1 other rank)";
     },
     "gpus-do-not-add",
     {"was not summed: ncclCommInitRank failed: system error (and 1 other rank) [",
      "fix: look at the network; NCCL_SOCKET_IFNAME"}},
    {"wrong_sums_of_gpus",
     [](JobFacts& job) { job.gpus.all_reduce = {"nccl", "NCCL 2.28.9", 1e-8, 1e-6, 64'000'000, 0.001, 5}; },
     "wrong-sums",
     {"64 MB of the GPUs' memory (NCCL 2.28.9) gave 5 wrong", "all-reduce of the GPUs' memory (NCCL 2.28.9)",
      "64 MB in 1.0 ms, 96.00 GB/s bus bandwidth"}},
    {"two_ranks_on_one_core",
     [](JobFacts& job) {
         for (auto& one : job.ranks) one.wanted_threads = 1;
         job.ranks[1].cores = job.ranks[0].cores = {3};
     },
     "more-ranks-than-cores",
     {"ranks 0, 1 on node1 share 1 core (3)", "--map-by socket:PE=N"}},
    {"ranks_within_the_cores_of_another",
     [](JobFacts& job) {
         for (auto& one : job.ranks) {
             one.host = "node1";
             one.shm_bytes *= 4;
             one.wanted_threads = 1;
             one.cores = {4, 5};
         }
         job.ranks[3].cores = {0, 1, 2, 3, 4, 5};
     },
     "more-ranks-than-cores",
     {"ranks 0, 1, 2 on node1 share 2 cores (4-5)"}},
    {"ranks_that_share_enough_cores",
     [](JobFacts& job) {
         for (auto& one : job.ranks) one.cores = {0, 1};
     },
     nullptr,
     {}},
    {"narrow_binding",
     [](JobFacts& job) { job.ranks[3].cores = {7}; },
     "binding-narrower-than-threads",
     {"rank 3 on node2", "bound to 1 core,", "OMP_NUM_THREADS asks for 2 threads", "PE=N"}},
    {"no_such_interface",
     [](JobFacts& job) {
         job.ranks[2].interfaces = {"lo", "eth0"};
     },
     "interface-does-not-exist",
     {"rank 2 on node2", "NCCL_SOCKET_IFNAME: no network interface ib0", "lo, eth0"}},
    {"small_shared_memory",
     [](JobFacts& job) { job.ranks[0].shm_bytes = job.ranks[1].shm_bytes = 64 << 20; },
     "small-dev-shm",
     {"node1 has 64 MiB", "2 ranks want 128 MiB", "--shm-size"}},
    {"clock_behind",
     [](JobFacts& job) { job.ranks[2].clock_ahead = -3.5; },
     "clock-skew",
     {"node2 is 3.5 s behind rank 0", "chronyc"}},
    {"clock_within_a_second", [](JobFacts& job) { job.ranks[2].clock_ahead = 0.9; }, nullptr, {}},
    {"no_locks",
     [](JobFacts& job) { job.ranks[1].hdf5_locking = "refused (Function not implemented)"; },
     "no-file-locking",
     {"rank 1 on node1", "HDF5_USE_FILE_LOCKING=FALSE"}},
    {"locking_switched_off",
     [](JobFacts& job) { job.ranks[1].hdf5_locking = "off (HDF5_USE_FILE_LOCKING=FALSE)"; },
     nullptr,
     {}},
};

class DoctorTable : public testing::TestWithParam<Case> {};

TEST_P(DoctorTable, finds_the_problem_and_only_it) {
    const Case& row = GetParam();
    JobFacts job = healthy();
    row.spoil(job);
    const auto problems = judge(job);
    if (row.problem == nullptr) {
        EXPECT_TRUE(problems.empty()) << problems.front().what;
        return;
    }
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_EQ(problems[0].name, row.problem);
    const std::string text = text_report(job, problems);
    for (const std::string& part : row.says) EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find("fix: " + problems[0].fix), std::string::npos) << text;
    EXPECT_NE(json_report(job, problems).find("\"healthy\": false"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(doctor, DoctorTable, testing::ValuesIn(cases),
                         [](const auto& row) { return std::string(row.param.name); });

/// Two ranks of node1 on a core each, of `cores`; no launch says how many threads they want.
JobFacts bound_to_a_core_each(int cores) {
    JobFacts job = healthy();
    job.ranks.resize(2);
    for (auto& one : job.ranks) {
        one.wanted_threads = 0;
        one.cores = {one.rank};
        for (int core = 0; core < cores; ++core) one.launcher_cores.push_back(core);
    }
    return job;
}

TEST(doctor, hints_at_cores_that_mpirun_leaves_idle_and_calls_the_job_healthy) {
    const JobFacts job = bound_to_a_core_each(64);
    EXPECT_TRUE(judge(job).empty());
    const auto found = hints(job);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].name, "cores-left-idle");
    EXPECT_EQ(found[0].what, "node1: 2 ranks are bound to 2 of 64 cores");
    const std::string text = text_report(job, {}, found);
    EXPECT_NE(text.find("\nno problems found\n\n1 hint:\n- node1: 2 ranks are"), std::string::npos) << text;
    EXPECT_NE(text.find("fix: mpirun binds one or two ranks to a core each: --bind-to none, or"),
              std::string::npos)
        << text;
    const std::string json = json_report(job, {}, found);
    EXPECT_NE(json.find("\"healthy\": true"), std::string::npos);
    EXPECT_NE(json.find("\"cores-left-idle\""), std::string::npos);
}

TEST(doctor, hints_at_no_idle_cores_where_that_is_not_certain_or_meant) {
    EXPECT_TRUE(hints(healthy()).empty()) << "what mpirun might have given is not known";
    EXPECT_TRUE(hints(bound_to_a_core_each(2)).empty());
    EXPECT_TRUE(hints(bound_to_a_core_each(3)).empty()) << "more than half are used";
    EXPECT_EQ(hints(bound_to_a_core_each(4)).size(), 1U);
    JobFacts job = bound_to_a_core_each(64);
    job.ranks[0].wanted_threads = 1;
    EXPECT_TRUE(hints(job).empty()) << "OMP_NUM_THREADS=1";
    job = bound_to_a_core_each(64);
    job.ranks[1].launcher_cores.pop_back();
    EXPECT_TRUE(hints(job).empty());
    job = bound_to_a_core_each(64);
    job.ranks[1].cores = {70};
    EXPECT_TRUE(hints(job).empty());
}

TEST(doctor, facts_travel_unchanged) {
    for (const RankFacts& one : healthy().ranks)
        EXPECT_EQ(to_json(rank_facts_from_json(to_json(one))), to_json(one));
}

TEST(doctor, writes_cores_as_ranges) {
    EXPECT_EQ(ranges({}), "");
    EXPECT_EQ(ranges({3}), "3");
    EXPECT_EQ(ranges({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

TEST(doctor, bus_bandwidth_counts_what_each_link_carries) {
    // nccl-tests' formula: 64 MB in 0.1 s on 4 ranks: 0.64 GB/s · 2 · 3/4.
    EXPECT_DOUBLE_EQ(bus_bandwidth({"mpi", "", 0, 0, 64'000'000, 0.1, 0}, 4), 0.96e9);
    EXPECT_EQ(bus_bandwidth({"mpi", "", 0, 0, 64'000'000, 0.0, 0}, 4), 0.0);
}

}  // namespace
}  // namespace tutti::doctor
