#include "tutti/comm/compression.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/thread_communicator.hpp"
#include "tutti/base/bf16.hpp"

namespace tutti {
namespace {

/// Of either sign and many magnitudes.
float value(int rank, std::size_t i) {
    const float size = std::ldexp(1.0F, static_cast<int>(i * 7 % 60) - 30);
    return size * (1.0F + static_cast<float>((i * 31 + 17 * static_cast<std::size_t>(rank)) % 97) / 89.0F) *
           ((i + static_cast<std::size_t>(rank)) % 3 == 0 ? -1.0F : 1.0F);
}
std::vector<float> values(int rank, std::size_t count) {
    std::vector<float> result(count);
    for (std::size_t i = 0; i < count; ++i) result[i] = value(rank, i);
    return result;
}

class CompressingRanks : public ::testing::TestWithParam<int> {};

TEST_P(CompressingRanks, sums_are_as_close_as_two_roundings_and_the_same_everywhere) {
    const int ranks = GetParam();
    test::run_on_threads(ranks, [&](Communicator& host) {
        const auto communicator = make_compressing_communicator(host.duplicate());
        for (const std::size_t count : {1u, 2u, 3u, 1023u, 1024u, 1025u, 5001u}) {
            // What lies behind the buffer is not touched.
            std::vector<float> sums = values(host.rank(), count + 1);
            communicator->all_reduce(view_of(std::span(sums).first(count)), ReduceOp::sum).wait();
            for (std::size_t i = 0; i < count; ++i) {
                double exact = 0, magnitude = 0;
                float rounded = 0;
                for (int rank = 0; rank < ranks; ++rank) {
                    exact += value(rank, i);
                    magnitude += std::abs(value(rank, i));
                    rounded += float_of_bf16(bf16_bits(value(rank, i)));
                }
                EXPECT_LE(std::abs(sums[i] - exact), (magnitude + std::abs(rounded)) / 256 + 1e-6 * magnitude)
                    << "element " << i << " of " << count;
            }
            EXPECT_EQ(sums[count], value(host.rank(), count));
            std::vector<float> of_first = sums;
            host.broadcast(view_of(std::span(of_first).first(count)), 0).wait();
            EXPECT_EQ(std::memcmp(sums.data(), of_first.data(), 4 * count), 0) << count;
        }
    });
}

TEST_P(CompressingRanks, many_ranks_do_not_add_up_roundings) {
    // 1 + 1/256 lies between two bf16; were partial sums rounded, the small parts would be lost one by one.
    const int ranks = GetParam();
    test::run_on_threads(ranks, [&](Communicator& host) {
        const auto communicator = make_compressing_communicator(host.duplicate());
        std::vector<float> sums{host.rank() == 0 ? 1.0F : 1.0F / 256};
        communicator->all_reduce(view_of(std::span(sums)), ReduceOp::sum).wait();
        const float exact = 1.0F + static_cast<float>(ranks - 1) / 256;
        EXPECT_EQ(sums[0], float_of_bf16(bf16_bits(exact)));
    });
}

TEST_P(CompressingRanks, what_is_not_finite_stays_so) {
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
    test::run_on_threads(GetParam(), [&](Communicator& host) {
        const auto communicator = make_compressing_communicator(host.duplicate());
        const bool last = host.rank() == host.size() - 1;
        std::vector<float> sums{last ? nan : 1.0F, last ? infinity : 1.0F, last ? -infinity : 1.0F,
                                std::numeric_limits<float>::max(), 1.0F};
        communicator->all_reduce(view_of(std::span(sums)), ReduceOp::sum).wait();
        EXPECT_TRUE(std::isnan(sums[0]));
        EXPECT_EQ(sums[1], infinity);
        EXPECT_EQ(sums[2], -infinity);
        EXPECT_EQ(sums[3], infinity);
        EXPECT_EQ(sums[4], static_cast<float>(host.size()));
    });
}

TEST_P(CompressingRanks, finishes_by_polling_and_only_once) {
    test::run_on_threads(GetParam(), [&](Communicator& host) {
        const auto communicator = make_compressing_communicator(host.duplicate());
        std::vector<float> sums(3000, 0.5F);
        Work work = communicator->all_reduce(view_of(std::span(sums)), ReduceOp::sum);
        while (!work.test()) {
        }
        work.wait();
        for (const float sum : sums) ASSERT_EQ(sum, 0.5F * static_cast<float>(host.size()));
    });
}

TEST_P(CompressingRanks, all_but_sums_of_f32_go_as_they_are) {
    test::run_on_threads(GetParam(), [&](Communicator& host) {
        const auto communicator = make_compressing_communicator(host.duplicate());
        std::vector<float> most{1.0F + 1.0F / 1024};
        std::vector<double> sum{1.0 + 1.0 / 1024};
        std::vector<float> sent{1.0F + 1.0F / 1024};
        communicator->all_reduce(view_of(std::span(most)), ReduceOp::max).wait();
        communicator->all_reduce(view_of(std::span(sum)), ReduceOp::sum).wait();
        communicator->broadcast(view_of(std::span(sent)), 0).wait();
        EXPECT_EQ(most[0], 1.0F + 1.0F / 1024);
        EXPECT_EQ(sum[0], host.size() * (1.0 + 1.0 / 1024));
        EXPECT_EQ(sent[0], 1.0F + 1.0F / 1024);
    });
}

TEST_P(CompressingRanks, bits_do_not_depend_on_where_a_buffer_is_cut) {
    test::run_on_threads(GetParam(), [&](Communicator& host) {
        const auto communicator = make_compressing_communicator(host.duplicate());
        EXPECT_TRUE(communicator->sums_in_fixed_order());
        EXPECT_EQ(communicator->all_reduce_path(), host.bf16_path());
        std::vector<float> whole = values(host.rank(), 3000), cut = whole;
        communicator->all_reduce(view_of(std::span(whole)), ReduceOp::sum).wait();
        communicator->all_reduce(view_of(std::span(cut).first(77)), ReduceOp::sum).wait();
        communicator->all_reduce(view_of(std::span(cut).subspan(77)), ReduceOp::sum).wait();
        EXPECT_EQ(std::memcmp(whole.data(), cut.data(), 4 * whole.size()), 0);
    });
}

INSTANTIATE_TEST_SUITE_P(ranks, CompressingRanks, ::testing::Range(2, 6));

}  // namespace
}  // namespace tutti
