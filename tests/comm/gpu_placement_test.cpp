#include "tutti/comm/gpu_placement.hpp"

#include <gtest/gtest.h>

#include "thread_communicator.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

struct Row {
    std::string name;
    std::vector<VisibleGpus> ranks;
    GpuSharing sharing;
    std::vector<GpuPlace> expected;
};

const std::vector<std::string> four{"a", "b", "c", "d"};

class GpuAssignment : public testing::TestWithParam<Row> {};

TEST_P(GpuAssignment, follows_what_each_rank_sees) {
    EXPECT_EQ(assign_gpus(GetParam().ranks, GetParam().sharing), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    table, GpuAssignment,
    testing::Values(Row{"one_rank", {{"n1", {"a"}}}, GpuSharing::refuse, {{0, "a"}}},
                    Row{"all_visible",
                        {{"n1", four}, {"n1", four}, {"n1", four}},
                        GpuSharing::refuse,
                        {{0, "a"}, {1, "b"}, {2, "c"}}},
                    Row{"one_visible_per_task",
                        {{"n1", {"a"}}, {"n1", {"b"}}, {"n1", {"c"}}},
                        GpuSharing::refuse,
                        {{0, "a"}, {0, "b"}, {0, "c"}}},
                    Row{"two_visible_per_task",
                        {{"n1", {"a", "b"}}, {"n1", {"c", "d"}}},
                        GpuSharing::refuse,
                        {{0, "a"}, {0, "c"}}},
                    Row{"two_hosts_dealt_in_turn",
                        {{"n1", {"a", "b"}}, {"n2", {"c", "d"}}, {"n1", {"a", "b"}}, {"n2", {"c", "d"}}},
                        GpuSharing::refuse,
                        {{0, "a"}, {0, "c"}, {1, "b"}, {1, "d"}}},
                    Row{"order_of_the_process_counts",
                        {{"n1", {"b", "a"}}, {"n1", {"b", "a"}}},
                        GpuSharing::refuse,
                        {{0, "b"}, {1, "a"}}},
                    Row{"parts_of_one_gpu",
                        {{"n1", {"MIG-1", "MIG-2"}}, {"n1", {"MIG-1", "MIG-2"}}},
                        GpuSharing::refuse,
                        {{0, "MIG-1"}, {1, "MIG-2"}}},
                    Row{"shared_when_allowed",
                        {{"n1", {"a"}}, {"n1", {"a"}}, {"n1", {"a"}}},
                        GpuSharing::allow,
                        {{0, "a"}, {0, "a"}, {0, "a"}}},
                    Row{"shared_in_turn",
                        {{"n1", {"a", "b"}}, {"n1", {"a", "b"}}, {"n1", {"a", "b"}}},
                        GpuSharing::allow,
                        {{0, "a"}, {1, "b"}, {0, "a"}}},
                    Row{"the_same_name_on_two_hosts_is_two_gpus",
                        {{"n1", {"a"}}, {"n2", {"a"}}},
                        GpuSharing::refuse,
                        {{0, "a"}, {0, "a"}}}),
    [](const auto& row) { return row.param.name; });

std::string refusal(const std::vector<VisibleGpus>& ranks, GpuSharing sharing = GpuSharing::refuse) {
    try {
        assign_gpus(ranks, sharing);
    } catch (const LaunchError& error) {
        return error.what();
    }
    return "no error";
}

TEST(GpuAssignment, names_two_ranks_on_one_gpu_the_host_and_the_remedy) {
    EXPECT_EQ(
        refusal({{"n1", {"x"}}, {"n2", {"a", "b"}}, {"n2", {"a", "b"}}, {"n2", {"a", "b"}}}),
        "rank 1 and rank 3 on n2 would share the GPU a (3 ranks and 2 visible GPUs there), which NCCL "
        "cannot; start at most 2 ranks on this host (srun --ntasks-per-node=2 --gpus-per-task=1, mpirun "
        "--map-by ppr:2:node), show them more GPUs, or set distributed.backend: mpi, which goes through "
        "host memory");
}

TEST(GpuAssignment, sees_one_gpu_behind_two_lists) {
    // CUDA_VISIBLE_DEVICES set by hand: both tasks call it their 0.
    EXPECT_NE(
        refusal({{"n1", {"a", "b"}}, {"n1", {"a"}}}).find("rank 0 and rank 1 on n1 would share the GPU a"),
        std::string::npos);
}

TEST(GpuAssignment, names_a_rank_that_sees_none_also_where_sharing_is_allowed) {
    EXPECT_EQ(refusal({{"n1", {"a"}}, {"n7", {}}}, GpuSharing::allow).substr(0, 28),
              "rank 1 on n7 sees no GPU; as");
}

TEST(GpuUuid, is_written_as_nvidia_smi_does) {
    std::array<std::byte, 16> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(17 * i);
    EXPECT_EQ(gpu_uuid_text(bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
}

TEST(GpuExchange, brings_every_rank_the_lists_of_all) {
    test::run_on_threads(3, [](Communicator& communicator) {
        const std::vector<std::vector<std::string>> lists{{}, {"GPU-1"}, {"GPU-2", "GPU-3"}};
        const auto rank = static_cast<std::size_t>(communicator.rank());
        const auto all = exchange_gpus(communicator, {"host" + std::to_string(rank), lists[rank]});
        ASSERT_EQ(all.size(), 3U);
        for (std::size_t r = 0; r < 3; ++r) {
            EXPECT_EQ(all[r].host, "host" + std::to_string(r));
            EXPECT_EQ(all[r].uuids, lists[r]);
        }
    });
}

}  // namespace
}  // namespace tutti
