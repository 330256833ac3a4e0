// Sums that travel as bf16 through a NCCL and GPUs that are not there; ranks are threads.
#include "nccl_bf16_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "nccl_rank.hpp"
#include "tutti/base/bf16.hpp"
#include "tutti/comm/compression.hpp"

namespace tutti::test {
namespace {

/// What the kernels do, as operations of the stream.
class FakeTransit final : public Bf16Transit {
  public:
    Buffer memory(std::size_t bytes) override {
        ++allocations;
        return {new std::byte[bytes], bytes, [](std::byte* data, std::size_t) noexcept { delete[] data; }};
    }
    void cast(const TensorView& from, const TensorView& to, void* stream) override {
        const auto count = static_cast<std::size_t>(from.count());
        static_cast<FakeStream*>(stream)->issue([=] {
            if (to.dtype == DType::bf16)
                round_to_bf16(std::span(from.as<float>(), count), reinterpret_cast<std::uint16_t*>(to.data));
            else
                widen_bf16({reinterpret_cast<std::uint16_t*>(from.data), count}, to.as<float>());
            return true;
        });
    }
    void add_rows(const TensorView& blocks, const TensorView& sum, void* stream) override {
        static_cast<FakeStream*>(stream)->issue([=] {
            const auto* const rows = reinterpret_cast<const std::uint16_t*>(blocks.data);
            for (std::int64_t i = 0; i < sum.count(); ++i) {
                float total = float_of_bf16(rows[i]);
                for (std::int64_t row = 1; row < blocks.shape[0]; ++row)
                    total += float_of_bf16(rows[row * sum.count() + i]);
                reinterpret_cast<std::uint16_t*>(sum.data)[i] = bf16_bits(total);
            }
            return true;
        });
    }

    int allocations = 0;
};

/// A rank whose sums travel as bf16.
struct CompressedRank : Rank {
    std::shared_ptr<FakeTransit> transit = std::make_shared<FakeTransit>();
    std::string notices;

    using Rank::Rank;
    NcclSettings settings(Communicator& world) {
        NcclSettings result = settings_of(world.rank());
        result.transit = transit;
        result.notice = [this](const std::string& why) { notices += why; };
        return result;
    }
    /// The calls of `name` and of all its kind.
    auto calls(const std::string& name) const { return std::ranges::count(nccl->calls(), name); }
};

/// Of either sign and many magnitudes.
std::vector<float> values(int rank, std::size_t count) {
    std::vector<float> result(count);
    for (std::size_t i = 0; i < count; ++i)
        result[i] =
            std::ldexp(1.0F + static_cast<float>((i * 31 + 17U * static_cast<unsigned>(rank)) % 97) / 89,
                       static_cast<int>(i * 7 % 20) - 10) *
            ((i + static_cast<std::size_t>(rank)) % 3 == 0 ? -1.0F : 1.0F);
    return result;
}

/// What the CPU makes of them.
std::vector<float> compressed_sums(Communicator& world, std::size_t count) {
    std::vector<float> sums = values(world.rank(), count);
    make_compressing_communicator(world.duplicate())
        ->all_reduce(view_of(std::span(sums)), ReduceOp::sum)
        .wait();
    return sums;
}

class NcclBf16Ranks : public testing::TestWithParam<int> {};

TEST_P(NcclBf16Ranks, have_the_bits_of_the_cpu_whatever_the_count) {
    run_on_threads(GetParam(), [](Communicator& world) {
        CompressedRank rank(world, {.polls = 2});
        {
            const auto communicator = rank.communicator(world, rank.settings(world));
            EXPECT_TRUE(communicator->sums_in_fixed_order());
            EXPECT_EQ(communicator->all_reduce_path(), "NCCL 0.0.0, in bf16");
            for (const std::size_t count : {1u, 2u, 7u, 8u, 9u, 31u, 64u, 65u, 1000u, 5001u}) {
                std::vector<float> sums = values(world.rank(), count + 1);
                communicator->all_reduce(view_of(std::span(sums).first(count)), ReduceOp::sum).wait();
                rank.gpu->finish();
                const std::vector<float> expected = compressed_sums(world, count);
                EXPECT_EQ(std::memcmp(sums.data(), expected.data(), 4 * count), 0) << count;
                EXPECT_EQ(sums[count], values(world.rank(), count + 1)[count]) << "behind the buffer";
            }
        }
        EXPECT_EQ(rank.nccl->violations(), std::vector<std::string>());
    });
}

TEST_P(NcclBf16Ranks, share_memory_that_is_made_once_among_transfers_under_way) {
    run_on_threads(GetParam(), [](Communicator& world) {
        CompressedRank rank(world, {});
        {
            const auto communicator = rank.communicator(world, rank.settings(world));
            EXPECT_EQ(communicator->allocate(4 * 3000).size(), 0U) << "of the gradients nothing is sent";
            EXPECT_EQ(rank.calls("register_window"), 1);
            std::vector<float> sums = values(world.rank(), 3000);
            {
                std::vector<Work> pending;
                for (const std::size_t first : {2000u, 1000u, 0u})
                    pending.push_back(communicator->all_reduce(view_of(std::span(sums).subspan(first, 1000)),
                                                               ReduceOp::sum));
            }
            rank.gpu->finish();
            EXPECT_EQ(sums, compressed_sums(world, 3000)) << "however it is cut";
            EXPECT_EQ(communicator->allocate(4 * 3000).size(), 0U);
            EXPECT_EQ(rank.calls("allocate"), 1);
            EXPECT_EQ(rank.transit->allocations, 0);
        }
        EXPECT_EQ(rank.calls("release"), 1);
        EXPECT_EQ(rank.nccl->violations(), std::vector<std::string>());
    });
}

TEST_P(NcclBf16Ranks, have_ordinary_memory_where_there_are_no_windows) {
    run_on_threads(GetParam(), [](Communicator& world) {
        CompressedRank rank(world, {.windows = false});
        const auto communicator = rank.communicator(world, rank.settings(world));
        communicator->allocate(4 * 1000);
        EXPECT_EQ(rank.notices.find("gradients lie in ordinary device memory"),
                  world.rank() == 0 ? 0 : std::string::npos);
        for (const std::size_t count : {1000u, 3u, 500u}) {
            std::vector<float> sums = values(world.rank(), count);
            communicator->all_reduce(view_of(std::span(sums)), ReduceOp::sum).wait();
            rank.gpu->finish();
            EXPECT_EQ(sums, compressed_sums(world, count));
        }
        EXPECT_EQ(rank.transit->allocations, 1);
    });
}

TEST_P(NcclBf16Ranks, wait_for_the_computation_before_and_the_one_behind_for_them) {
    run_on_threads(GetParam(), [](Communicator& world) {
        CompressedRank rank(world, {});
        const auto communicator = rank.communicator(world, rank.settings(world));
        std::vector<float> sums(64, 1000.0F);
        bool backward_may_end = false, optimizer_ran = false;
        FakeStream& compute = rank.gpu->compute();
        compute.issue([&] {
            if (backward_may_end) std::ranges::fill(sums, 2.0F);
            return backward_may_end;
        });
        Work work = communicator->all_reduce(view_of(std::span(sums)), ReduceOp::sum);
        for (int poll = 0; poll < 5; ++poll) EXPECT_FALSE(work.test());
        EXPECT_EQ(sums, std::vector<float>(64, 1000.0F));
        backward_may_end = true;
        work.wait();
        compute.issue([&] {
            EXPECT_EQ(sums, std::vector<float>(64, 2.0F * static_cast<float>(world.size())));
            return optimizer_ran = true;
        });
        rank.gpu->finish();
        EXPECT_TRUE(optimizer_ran);
    });
}

INSTANTIATE_TEST_SUITE_P(fake, NcclBf16Ranks, testing::Range(2, 6));

TEST(NcclBf16Sums, of_two_ranks_are_an_all_reduce_and_of_more_are_not_left_to_nccl) {
    for (const int ranks : {2, 3})
        run_on_threads(ranks, [&](Communicator& world) {
            CompressedRank rank(world, {});
            const auto communicator = rank.communicator(world, rank.settings(world));
            std::vector<float> sums(100, 1.0F);
            communicator->all_reduce(view_of(std::span(sums)), ReduceOp::sum).wait();
            EXPECT_EQ(rank.calls("all_reduce"), ranks == 2 ? 1 : 0);
            EXPECT_EQ(rank.calls("all_to_all"), ranks == 2 ? 0 : 1);
            EXPECT_EQ(rank.calls("all_gather"), ranks == 2 ? 0 : 1);
        });
}

TEST(NcclBf16Sums, leave_all_but_sums_of_f32_as_they_are) {
    run_on_threads(3, [](Communicator& world) {
        CompressedRank rank(world, {});
        const auto communicator = rank.communicator(world, rank.settings(world));
        const auto copy = communicator->duplicate();
        std::vector<float> most{1.0F + 1.0F / 1024}, sent = most, rounded = most;
        std::vector<double> sum{1.0 + 1.0 / 1024};
        communicator->all_reduce(view_of(std::span(most)), ReduceOp::max).wait();
        communicator->all_reduce(view_of(std::span(sum)), ReduceOp::sum).wait();
        communicator->broadcast(view_of(std::span(sent)), 0).wait();
        copy->all_reduce(view_of(std::span(rounded)), ReduceOp::sum).wait();
        rank.gpu->finish();
        EXPECT_EQ(most[0], 1.0F + 1.0F / 1024);
        EXPECT_EQ(sum[0], 3 * (1.0 + 1.0 / 1024));
        EXPECT_EQ(sent[0], 1.0F + 1.0F / 1024);
        EXPECT_EQ(rounded[0], 3.0F) << "a duplicate's, too";
    });
}

TEST(NcclBf16Sums, of_a_rank_alone_are_not_rounded) {
    run_on_threads(1, [](Communicator& world) {
        CompressedRank rank(world, {});
        const auto communicator = rank.communicator(world, rank.settings(world));
        std::vector<float> sums{1.0F + 1.0F / 1024};
        communicator->all_reduce(view_of(std::span(sums)), ReduceOp::sum).wait();
        EXPECT_EQ(sums[0], 1.0F + 1.0F / 1024);
        EXPECT_EQ(communicator->all_reduce_path(), "NCCL 0.0.0");
    });
}

TEST(NcclBf16Sums, are_part_of_a_recording) {
    run_on_threads(3, [](Communicator& world) {
        CompressedRank rank(world, {.polls = 2});
        const auto communicator = rank.communicator(world, rank.settings(world));
        communicator->allocate(4 * 100);
        std::vector<float> sums(100, 1.0F);
        EXPECT_EQ(communicator->why_not_recordable(), "");
        rank.gpu->recording = true;
        communicator->all_reduce(view_of(std::span(sums)), ReduceOp::sum).wait();
        rank.gpu->recording = false;
        communicator->follow_recorded().wait();
        EXPECT_EQ(sums, std::vector<float>(100, 3.0F));
        EXPECT_EQ(rank.nccl->violations(), std::vector<std::string>());
    });
}

TEST(NcclBf16Sums, that_fail_name_the_call_the_rank_and_the_host) {
    run_on_threads(3, [](Communicator& world) {
        CompressedRank rank(world, {.answers = {{"all_to_all", NcclResult::remote_error}}});
        const auto communicator = rank.communicator(world, rank.settings(world));
        std::vector<float> sums(100, 1.0F);
        try {
            communicator->all_reduce(view_of(std::span(sums)), ReduceOp::sum);
            FAIL() << "no error";
        } catch (const PeerError& error) {
            const std::string number = std::to_string(world.rank());
            const std::string expected =
                "all_reduce of 100 bf16 on rank " + number + " (node" + number + ") failed";
            EXPECT_EQ(std::string(error.what()).substr(0, expected.size()), expected);
        }
        EXPECT_EQ(rank.nccl->calls().back(), "abort");
    });
}

TEST(NcclBf16Sums, end_with_the_communicator_where_a_gpu_that_has_failed_leaves_them) {
    run_on_threads(2, [](Communicator& world) {
        CompressedRank rank(world, {.stalls = true});
        std::vector<float> sums(100, 1.0F);
        const auto fails = [&] {
            const auto communicator = rank.communicator(world, rank.settings(world));
            communicator->allocate(4 * 100);
            const Work work = communicator->all_reduce(view_of(std::span(sums)), ReduceOp::sum);
            rank.gpu->dead = true;
            throw RunError("a kernel failed", "");
        };
        try {
            fails();
            FAIL() << "no error";
        } catch (const RunError& error) {
            EXPECT_EQ(std::string(error.what()).substr(0, 15), "a kernel failed");
        }
        EXPECT_EQ(rank.calls("abort"), 1);
        EXPECT_EQ(rank.calls("release"), 1);
    });
}

}  // namespace
}  // namespace tutti::test
