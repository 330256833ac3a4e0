#include "device_choice.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

constexpr const char* no_driver = "there is no NVIDIA driver";

struct Row {
    const char* name;
    DeviceChoice choice;
    Precision precision;
    std::vector<GpuOffer> offers;
    bool cuda;
    std::string says;  ///< the notice, or with `refused` the error's text
    bool refused = false;
};

std::vector<Row> rows() {
    const GpuOffer has{"node1", ""}, lacks{"node2", no_driver};
    using enum DeviceChoice;
    using enum Precision;
    return {
        {"cpu is not asked about GPUs", cpu, fp32, {has}, false, ""},
        {"auto takes the GPU", automatic, bf16, {has}, true, ""},
        {"cuda takes the GPU", cuda, tf32, {has, has}, true, ""},
        {"auto without a driver",
         automatic,
         fp32,
         {lacks},
         false,
         "device: auto takes the CPU: there is no NVIDIA driver"},
        {"auto, and nobody has one",
         automatic,
         fp32,
         {lacks, lacks, lacks},
         false,
         "device: auto takes the CPU: there is no NVIDIA driver"},
        {"auto, and one rank lacks it",
         automatic,
         fp32,
         {has, lacks, has},
         false,
         "device: auto takes the CPU: rank 1 on node2: there is no NVIDIA driver"},
        {"auto, and two ranks lack it",
         automatic,
         fp32,
         {has, lacks, lacks},
         false,
         "device: auto takes the CPU: rank 1 on node2: there is no NVIDIA driver (and 1 other rank)"},
        {"cuda without a driver",
         cuda,
         fp32,
         {lacks},
         false,
         "device is cuda, but there is not a GPU for every rank: there is no NVIDIA driver; set device: auto "
         "or "
         "cpu, or ask for nodes with GPUs (--gres=gpu:N)",
         true},
        {"cuda, and three ranks lack it",
         cuda,
         fp32,
         {has, lacks, lacks, lacks},
         false,
         "device is cuda, but there is not a GPU for every rank: rank 1 on node2: there is no NVIDIA driver "
         "(and "
         "2 other ranks); set device: auto or cpu, or ask for nodes with GPUs (--gres=gpu:N)",
         true},
        {"auto in fp64",
         automatic,
         fp64,
         {has},
         false,
         "device: auto takes the CPU, as train.precision is fp64"},
        {"cuda in fp64",
         cuda,
         fp64,
         {has},
         false,
         "device is cuda, but train.precision is fp64, which the CPU alone computes; set train.precision to "
         "fp32, tf32 or bf16, or device: cpu",
         true},
    };
}

TEST(DeviceChoice, is_the_same_for_all_ranks_and_says_why) {
    for (const Row& row : rows()) {
        SCOPED_TRACE(row.name);
        try {
            const DeviceDecision decision = decide_device(row.choice, row.precision, row.offers);
            EXPECT_FALSE(row.refused);
            EXPECT_EQ(decision.cuda, row.cuda);
            EXPECT_EQ(decision.notice, row.says);
        } catch (const UsageError& error) {
            EXPECT_TRUE(row.refused);
            EXPECT_EQ(error.what(), row.says);
        }
    }
}

TEST(GpuSharing, is_for_gradients_through_host_memory_and_for_an_nccl_that_was_told_to) {
    for (const bool nccl_shares : {false, true}) {
        EXPECT_EQ(sharing_of(Backend::mpi, nccl_shares), GpuSharing::allow);
        EXPECT_EQ(sharing_of(Backend::gloo, nccl_shares), GpuSharing::allow);
        EXPECT_EQ(sharing_of(Backend::automatic, nccl_shares), GpuSharing::refuse);
    }
    EXPECT_EQ(sharing_of(Backend::nccl, false), GpuSharing::refuse);
    EXPECT_EQ(sharing_of(Backend::nccl, true), GpuSharing::allow);
}

TEST(GradientBackend, nccl_is_refused_on_the_cpu) {
    for (const Backend backend : {Backend::automatic, Backend::mpi, Backend::gloo}) {
        EXPECT_NO_THROW(check_backend(backend, false));
        EXPECT_NO_THROW(check_backend(backend, true));
    }
    EXPECT_NO_THROW(check_backend(Backend::nccl, true));
    EXPECT_THROW(check_backend(Backend::nccl, false), UsageError);
}

TEST(DeviceChoice, does_not_look_for_gpus_that_cannot_be_taken) {
    EXPECT_FALSE(asks_for_gpus(DeviceChoice::cpu, Precision::fp32));
    EXPECT_FALSE(asks_for_gpus(DeviceChoice::automatic, Precision::fp64));
    EXPECT_TRUE(asks_for_gpus(DeviceChoice::automatic, Precision::fp32));
    EXPECT_TRUE(asks_for_gpus(DeviceChoice::cuda, Precision::bf16));
}

}  // namespace
}  // namespace tutti::test
