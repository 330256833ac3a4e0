// Which way gradients go between GPUs; ranks are threads, the module's part is a fake.
#include "tutti/comm/gpu_communicator.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "cuda_comm.hpp"
#include "fake_nccl/fake_device_memory.hpp"
#include "gpu_transport.hpp"
#include "thread_communicator.hpp"
#include "tutti/base/host_name.hpp"

namespace tutti::test {
namespace {

/// What each rank decides; the ranks of `without` cannot open NCCL.
std::vector<std::string> decisions(Backend asked, int ranks, const std::vector<int>& without) {
    std::mutex mutex;
    std::vector<std::string> all(static_cast<std::size_t>(ranks));
    run_on_threads(ranks, [&](Communicator& world) {
        std::string decision;
        try {
            const auto staging = choose_staging(asked, world, [&] {
                for (const int rank : without)
                    if (rank == world.rank()) throw RunError("no libnccl here");
            });
            decision = staging ? "staged: " + *staging : "nccl";
        } catch (const AgreedError& error) {
            decision = std::string("refused: ") + error.what();
        }
        const std::lock_guard lock(mutex);
        all[static_cast<std::size_t>(world.rank())] = decision;
    });
    return all;
}
std::vector<std::string> everywhere(int ranks, const std::string& decision) {
    return std::vector<std::string>(static_cast<std::size_t>(ranks), decision);
}

TEST(GpuTransport, is_nccl_where_every_rank_has_it) {
    EXPECT_EQ(decisions(Backend::automatic, 3, {}), everywhere(3, "nccl"));
    EXPECT_EQ(decisions(Backend::nccl, 2, {}), everywhere(2, "nccl"));
}

TEST(GpuTransport, goes_through_host_memory_on_all_ranks_where_one_has_no_nccl_and_says_why) {
    EXPECT_EQ(decisions(Backend::automatic, 3, {2}),
              everywhere(3, "staged: gradients go through host memory: rank 2 on " + host_name() +
                                ": no libnccl here"));
}

TEST(GpuTransport, that_was_asked_for_is_refused_on_all_ranks_where_one_does_not_have_it) {
    EXPECT_EQ(decisions(Backend::nccl, 3, {1}),
              everywhere(3, "refused: rank 1 on " + host_name() + ": no libnccl here"));
}

TEST(GpuTransport, through_host_memory_on_demand_does_not_look_for_nccl) {
    EXPECT_EQ(decisions(Backend::mpi, 2, {0, 1}), everywhere(2, "staged: "));
    EXPECT_EQ(decisions(Backend::gloo, 2, {0, 1}), everywhere(2, "staged: "));
}

thread_local FakeDeviceMemory* made_staging = nullptr;

HostStaging* make_fake_staging(GpuStream compute, const char** problem) {
    if (compute == nullptr) {
        *problem = "cudaHostAlloc failed";
        return nullptr;
    }
    return made_staging = new FakeDeviceMemory;
}

GpuEntries entries(void* compute) {
    return {nullptr, reinterpret_cast<void*>(&make_fake_staging), nullptr, compute};
}

TEST(GpuCommunicator, sums_device_memory_through_the_modules_copies) {
    run_on_threads(3, [](Communicator& world) {
        int stream = 0;
        DistributedConfig config;
        config.backend = Backend::mpi;
        const auto communicator = make_gpu_communicator(
            config, entries(&stream), world.duplicate(), "node", [](const std::string&) {},
            [](const std::string&) {});
        const TensorView values = made_staging->upload(std::vector<float>(10, 2.0F));
        communicator->all_reduce(values, ReduceOp::sum).wait();
        EXPECT_EQ(made_staging->download<float>(values), std::vector<float>(10, 6.0F));
    });
}

TEST(GpuCommunicator, sums_as_bf16_in_the_modules_host_memory_where_asked_to) {
    run_on_threads(3, [](Communicator& world) {
        int stream = 0;
        DistributedConfig config;
        config.backend = Backend::mpi;
        config.compress = Compress::bf16;
        const auto communicator = make_gpu_communicator(
            config, entries(&stream), world.duplicate(), "node", [](const std::string&) {},
            [](const std::string&) {});
        std::vector<float> given{1.0F + 1.0F / 1024, world.rank() == 0 ? 1.0F : 1.0F / 256, 3.0F};
        const TensorView values = made_staging->upload(given);
        communicator->all_reduce(values, ReduceOp::sum).wait();
        EXPECT_EQ(made_staging->download<float>(values), (std::vector<float>{3.0F, 1.0078125F, 9.0F}));
    });
}

TEST(GpuCommunicator, refuses_on_all_ranks_what_the_module_refuses_on_one) {
    run_on_threads(2, [](Communicator& world) {
        int stream = 0;
        DistributedConfig config;
        config.backend = Backend::mpi;
        try {
            make_gpu_communicator(
                config, entries(world.rank() == 1 ? nullptr : &stream), world.duplicate(), "node",
                [](const std::string&) {}, [](const std::string&) {});
            FAIL() << "no error";
        } catch (const AgreedError& error) {
            EXPECT_EQ(error.what(), "rank 1 on " + host_name() + ": cudaHostAlloc failed");
        }
    });
}

}  // namespace
}  // namespace tutti::test
