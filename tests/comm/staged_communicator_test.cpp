// Collectives of device memory through the host's; ranks are threads.
#include "staged_communicator.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "butterfly_check.hpp"
#include "communicator_contract.hpp"
#include "fake_nccl/fake_device_memory.hpp"
#include "thread_communicator.hpp"

namespace tutti::test {
namespace {

/// A device whose memory is the host's: for tests that look at it directly.
class HostAsDevice final : public HostStaging {
  public:
    Buffer host_memory(std::size_t bytes) override {
        return {static_cast<std::byte*>(std::malloc(bytes)), bytes,
                [](std::byte* data, std::size_t) noexcept { std::free(data); }};
    }
    void to_host(std::byte* host, const TensorView& device) override {
        std::memcpy(host, device.data, device.bytes());
    }
    void to_device(const TensorView& device, const std::byte* host) override {
        std::memcpy(device.data, host, device.bytes());
    }
};

class StagedContract : public testing::TestWithParam<std::tuple<int, ContractCheck>> {};

TEST_P(StagedContract, holds) {
    const auto& [ranks, check] = GetParam();
    run_on_threads(ranks, [run = check.run](Communicator& world) {
        run(*make_staged_communicator(world.duplicate(), std::make_shared<HostAsDevice>()));
    });
}
INSTANTIATE_TEST_SUITE_P(threads, StagedContract,
                         testing::Combine(testing::Range(1, 5), testing::ValuesIn(communicator_contract())),
                         [](const auto& row) {
                             return "np" + std::to_string(std::get<0>(row.param)) + "_" +
                                    std::get<1>(row.param).name;
                         });

TEST(StagedButterfly, HasTheBitsOfTheTree) {
    for (const int ranks : {2, 3, 4})
        run_on_threads(ranks, [](Communicator& world) {
            expect_butterfly(*make_staged_communicator(world.duplicate(), std::make_shared<HostAsDevice>()));
        });
}

class StagedRanks : public testing::TestWithParam<int> {
  protected:
    /// Calls body(communicator, device) on every rank.
    template <class Body>
    void run(const Body& body) {
        run_on_threads(GetParam(), [&](Communicator& world) {
            const auto device = std::make_shared<FakeDeviceMemory>();
            const auto communicator = make_staged_communicator(world.duplicate(), device);
            body(*communicator, *device);
        });
    }
    int ranks() const { return GetParam(); }
};

TEST_P(StagedRanks, all_reduce_touches_device_memory_by_copies_only) {
    run([&](Communicator& communicator, FakeDeviceMemory& device) {
        const TensorView values = device.upload(std::vector<float>(1000, 1.5F));
        communicator.all_reduce(values, ReduceOp::sum).wait();
        EXPECT_EQ(device.download<float>(values),
                  std::vector<float>(1000, 1.5F * static_cast<float>(ranks())));
    });
}

TEST_P(StagedRanks, reduce_scatter_and_all_gather_bring_blocks_in_place_and_apart) {
    run([&](Communicator& communicator, FakeDeviceMemory& device) {
        const std::int64_t block = 100;
        std::vector<double> numbers(static_cast<std::size_t>(block * ranks()));
        std::iota(numbers.begin(), numbers.end(), 0.0);
        const TensorView input = device.upload(numbers), output = device.upload(std::vector<double>(100));
        const TensorView own{input.data + block * 8 * communicator.rank(), DType::f64, {block}};
        std::vector<double> expected(100);
        std::iota(expected.begin(), expected.end(), static_cast<double>(block * communicator.rank()));
        for (double& value : expected) value *= ranks();

        communicator.reduce_scatter(input, output, ReduceOp::sum).wait();
        EXPECT_EQ(device.download<double>(output), expected);
        EXPECT_EQ(device.download<double>(input), numbers);
        communicator.reduce_scatter(input, own, ReduceOp::sum).wait();
        EXPECT_EQ(device.download<double>(own), expected);

        for (double& value : numbers) value *= ranks();
        communicator.all_gather(own, input).wait();
        EXPECT_EQ(device.download<double>(input), numbers);
        const TensorView whole = device.upload(std::vector<double>(numbers.size()));
        communicator.all_gather(output, whole).wait();
        EXPECT_EQ(device.download<double>(whole), numbers);
    });
}

TEST_P(StagedRanks, exchange_brings_what_the_peer_has_and_touches_device_memory_by_copies_only) {
    if (ranks() % 2 != 0) return;
    run([&](Communicator& communicator, FakeDeviceMemory& device) {
        const int peer = communicator.rank() ^ 1;
        const TensorView mine =
            device.upload(std::vector<float>(300, static_cast<float>(communicator.rank())));
        const TensorView theirs = device.upload(std::vector<float>(300, -1));
        communicator.exchange(mine, theirs, peer).wait();
        EXPECT_EQ(device.download<float>(theirs), std::vector<float>(300, static_cast<float>(peer)));
        EXPECT_EQ(device.download<float>(mine),
                  std::vector<float>(300, static_cast<float>(communicator.rank())));
        EXPECT_THROW(communicator.exchange(mine, theirs, communicator.rank()), UsageError);
    });
}

TEST_P(StagedRanks, broadcast_reaches_all_and_leaves_the_root_alone) {
    run([&](Communicator& communicator, FakeDeviceMemory& device) {
        const int root = ranks() - 1;
        const TensorView text = device.upload(
            std::vector<unsigned char>(33, static_cast<unsigned char>(communicator.rank() == root ? 7 : 0)));
        communicator.broadcast(text, root).wait();
        EXPECT_EQ(device.download<unsigned char>(text), std::vector<unsigned char>(33, 7));
    });
}

TEST_P(StagedRanks, results_come_with_the_end_of_the_work_and_pinned_memory_is_used_again) {
    run([&](Communicator& communicator, FakeDeviceMemory& device) {
        std::vector<TensorView> buffers;
        for (int k = 0; k < 3; ++k) buffers.push_back(device.upload(std::vector<float>(500, 1)));
        for (int step = 0; step < 4; ++step) {
            std::vector<Work> works;
            for (const TensorView& buffer : buffers)
                works.push_back(communicator.all_reduce(buffer, ReduceOp::max));
            while (!works[2].test()) {
            }
            for (Work& work : works) work.wait();
        }
        EXPECT_EQ(device.allocations, 3);
    });
}

INSTANTIATE_TEST_SUITE_P(threads, StagedRanks, testing::Range(1, 5),
                         [](const auto& row) { return "np" + std::to_string(row.param); });

TEST(StagedMemory, cannot_be_read_by_the_host) {
    FakeDeviceMemory device;
    const TensorView values = device.upload(std::vector<float>(4, 1));
    EXPECT_DEATH(std::printf("%f\n", static_cast<double>(*values.as<float>())), "");
}

}  // namespace
}  // namespace tutti::test
