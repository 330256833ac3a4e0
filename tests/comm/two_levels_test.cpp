// Several ranks on each of several hosts: sums of the hosts first, over MPI and over gloo.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "communicator_contract.hpp"
#include "gloo_mesh.hpp"
#include "mpi_communicator.hpp"
#include "mpi_environment.hpp"
#include "tree_sum.hpp"
#include "tutti/base/bf16.hpp"
#include "tutti/comm/gloo.hpp"
#include "two_level_lane.hpp"

namespace tutti::test {
namespace {

/// How many ranks a host is to have, whether they follow one another, and what carries their messages.
struct Placement {
    int each;
    bool in_blocks, over_gloo;
};
std::string name_of(const Placement& placement) {
    return std::to_string(placement.each) + (placement.in_blocks ? "_in_blocks" : "_dealt_out") +
           (placement.over_gloo ? "_over_gloo" : "");
}

/// The ranks by host, in the order of the sums.
std::vector<std::vector<int>> ranks_by_host(const Placement& placement) {
    const int hosts = session().size() / placement.each;
    std::vector<std::vector<int>> ranks(static_cast<std::size_t>(hosts));
    for (int rank = 0; rank < session().size(); ++rank)
        ranks[static_cast<std::size_t>(placement.in_blocks ? rank / placement.each : rank % hosts)].push_back(
            rank);
    return ranks;
}

int host_of_this_rank(const Placement& placement) {
    const auto ranks = ranks_by_host(placement);
    int host = 0;
    while (std::ranges::find(ranks[static_cast<std::size_t>(host)], session().rank()) ==
           ranks[static_cast<std::size_t>(host)].end())
        ++host;
    return host;
}

/// Those that are possible with these ranks.
std::vector<Placement> placements() {
    std::vector<Placement> possible;
    for (const int each : {2, 3})
        if (session().size() >= 2 * each && session().size() % each == 0)
            for (const bool in_blocks : {true, false})
                for (const bool over_gloo : {false, true})
                    if (!over_gloo || gloo_absence().empty())
                        possible.push_back({each, in_blocks, over_gloo});
    return possible;
}

/// This host's ranks as if they were on several hosts.
std::unique_ptr<Communicator> world_of(const Placement& placement, double seconds = ample_time) {
    const int host = host_of_this_rank(placement);
    if (placement.over_gloo) {
        const GlooPlace place{session().rank(), session().size(), "host" + std::to_string(host), "127.0.0.1",
                              ""};
        const auto control = session().world(ample_time);
        const auto exchange = [&](const std::string& mine) { return all_gather_text(*control, mine); };
        return make_gloo_communicator(connect_gloo(place, exchange, ample_time, {}), seconds, {});
    }
    const auto handle = make_handle(MPI_COMM_WORLD, seconds);
    handle->lanes = std::make_shared<Lanes>();
    handle->layout = host_layout(handle, 100 - host);  // any number
    handle->make_lane = make_two_level_lane;
    handle->lane = make_two_level_lane(handle);
    return make_mpi_communicator(handle);
}

class TwoLevelContract : public testing::TestWithParam<std::tuple<ContractCheck, Placement>> {};

TEST_P(TwoLevelContract, holds) {
    const auto& [check, placement] = GetParam();
    const auto world = world_of(placement);
    ASSERT_EQ(world->all_reduce_path(),
              placement.over_gloo ? "shared memory and gloo" : "shared memory and direct exchange");
    check.run(*world);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TwoLevelContract);
INSTANTIATE_TEST_SUITE_P(mpi, TwoLevelContract,
                         testing::Combine(testing::ValuesIn(communicator_contract()),
                                          testing::ValuesIn(placements())),
                         [](const auto& row) {
                             return std::string(std::get<0>(row.param).name) + "_" +
                                    name_of(std::get<1>(row.param));
                         });

class TwoLevelSums : public testing::TestWithParam<Placement> {
  protected:
    static float value(int rank, std::size_t i) {
        return 1.0F / static_cast<float>(3 + 7 * rank) + static_cast<float>(i % 1013) / 7.0F;
    }
    static float rounded(float value) { return float_of_bf16(bf16_bits(value)); }
    static std::vector<float> own_values(std::size_t count) {
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = value(session().rank(), i);
        return values;
    }
    /// In fp32; with_bf16: values and sums as they are in bf16.
    static std::vector<float> expected(std::size_t count, bool with_bf16 = false) {
        const auto kept = [=](float one) { return with_bf16 ? rounded(one) : one; };
        const auto hosts = ranks_by_host(GetParam());
        std::vector<float> sums(count);
        for (std::size_t i = 0; i < count; ++i) {
            const auto of_host = [&](int host) {
                const auto& ranks = hosts[static_cast<std::size_t>(host)];
                return kept(tree_sum(0, static_cast<int>(ranks.size()), [&](int place) {
                    return kept(value(ranks[static_cast<std::size_t>(place)], i));
                }));
            };
            sums[i] = kept(tree_sum(0, static_cast<int>(hosts.size()), of_host));
        }
        return sums;
    }

    std::unique_ptr<Communicator> world_ = world_of(GetParam());
};

TEST_P(TwoLevelSums, are_of_hosts_sums_wherever_buffers_are_cut) {
    const auto sums = expected(400'001);
    EXPECT_TRUE(world_->sums_in_fixed_order());
    for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{123'457}}) {
        std::vector<float> values = own_values(sums.size());
        const std::span whole(values);
        Work first = world_->all_reduce(view_of(whole.first(cut)), ReduceOp::sum);
        Work second = world_->all_reduce(view_of(whole.subspan(cut)), ReduceOp::sum);
        second.wait();
        first.wait();
        EXPECT_EQ(values, sums) << "cut at " << cut;
    }
}

TEST_P(TwoLevelSums, of_twos_in_a_row_are_as_on_one_host) {
    if (GetParam().each != 2 || !GetParam().in_blocks) return;
    for (const std::size_t count : {std::size_t{100}, std::size_t{100'000}}) {
        std::vector<float> values = own_values(count), on_one_host = values;
        world_->all_reduce(view_of(std::span(values)), ReduceOp::sum).wait();
        const auto shared = session().world(ample_time);
        ASSERT_EQ(shared->all_reduce_path(), "shared memory");
        shared->all_reduce(view_of(std::span(on_one_host)), ReduceOp::sum).wait();
        EXPECT_EQ(values, on_one_host) << count;
    }
}

TEST_P(TwoLevelSums, of_reduce_scatters_have_the_same_bits) {
    const auto ranks = static_cast<std::size_t>(session().size());
    for (const std::size_t block : {std::size_t{1}, std::size_t{999}, std::size_t{50'001}}) {
        const auto sums = expected(block * ranks);
        const std::size_t first = block * static_cast<std::size_t>(session().rank());
        std::vector<float> values = own_values(block * ranks), all(block * ranks);
        const std::span own = std::span(values).subspan(first, block);
        world_->reduce_scatter(view_of(std::span(values)), view_of(own), ReduceOp::sum).wait();
        EXPECT_TRUE(std::ranges::equal(own, std::span(sums).subspan(first, block))) << block;
        world_->all_gather(view_of(own), view_of(std::span(all))).wait();
        EXPECT_EQ(all, sums) << block;
    }
}

TEST_P(TwoLevelSums, of_bf16_are_rounded_by_host_and_in_the_end) {
    const auto sums = expected(50'001, true);
    std::vector<std::uint16_t> bits;
    std::vector<float> result;
    for (std::size_t i = 0; i < sums.size(); ++i) bits.push_back(bf16_bits(value(session().rank(), i)));
    const TensorView view{reinterpret_cast<std::byte*>(bits.data()), DType::bf16,
                          Shape{static_cast<std::int64_t>(bits.size())}};
    world_->all_reduce(view, ReduceOp::sum).wait();
    for (const std::uint16_t one : bits) result.push_back(float_of_bf16(one));
    EXPECT_EQ(result, sums);
}

TEST_P(TwoLevelSums, follow_one_another_with_other_calls_between_them) {
    const auto sums = expected(300'000);
    const auto copy = world_->duplicate();
    std::vector<float> first = own_values(sums.size()), second = first;
    std::vector<float> part = own_values(2), gathered(2 * static_cast<std::size_t>(session().size()));
    Work one = world_->all_reduce(view_of(std::span(first)), ReduceOp::sum);
    Work gather = world_->all_gather(view_of(std::span(part)), view_of(std::span(gathered)));
    Work other = copy->all_reduce(view_of(std::span(second)), ReduceOp::sum);
    // Whoever waits for one drives the others, in any order.
    if (session().rank() % 2 == 0) {
        other.wait();
        gather.wait();
    }
    one.wait();
    gather.wait();
    other.wait();
    EXPECT_EQ(first, sums);
    EXPECT_EQ(second, sums);
    for (int rank = 0; rank < session().size(); ++rank)
        EXPECT_EQ(gathered[2 * static_cast<std::size_t>(rank)], value(rank, 0));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TwoLevelSums);
INSTANTIATE_TEST_SUITE_P(mpi, TwoLevelSums, testing::ValuesIn(placements()),
                         [](const auto& row) { return name_of(row.param); });

class TwoLevelsOverGloo : public testing::TestWithParam<Placement> {
  protected:
    static bool is_last() { return session().rank() == session().size() - 1; }
    /// What ends calls for which the last rank does not come, or "no error".
    static std::vector<std::string> failures(Communicator& world) {
        std::vector<float> all(static_cast<std::size_t>(session().size()) * 1000), block(1000);
        std::vector<std::string> messages;
        const auto add = [&](const auto& call) {
            try {
                call();
                messages.emplace_back("no error");
            } catch (const PeerError& error) {
                messages.emplace_back(error.what());
            }
        };
        add([&] { world.all_reduce(view_of(std::span(all)), ReduceOp::sum).wait(); });
        add([&] { world.all_gather(view_of(std::span(block)), view_of(std::span(all))); });
        return messages;
    }
};

TEST_P(TwoLevelsOverGloo, name_the_silent_rank_on_every_other) {
    const auto world = world_of(GetParam(), 0.5);
    const std::string last = "nothing came from rank " + std::to_string(session().size() - 1) + " on host";
    if (!is_last()) {
        const auto messages = failures(*world);
        EXPECT_NE(messages[0].find("(timed out: " + last), std::string::npos) << messages[0];
        EXPECT_NE(messages[1].find("cannot reach its peers: timed out: " + last), std::string::npos)
            << messages[1];
    }
    session().world(ample_time)->barrier();
}

TEST_P(TwoLevelsOverGloo, notice_at_once_that_a_rank_has_left) {
    auto world = world_of(GetParam(), 0);  // waits for ever
    if (is_last()) world.reset();
    if (world) {
        EXPECT_NE(failures(*world)[0], "no error");
    }
    world.reset();
    session().world(ample_time)->barrier();
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TwoLevelsOverGloo);
INSTANTIATE_TEST_SUITE_P(gloo, TwoLevelsOverGloo, testing::ValuesIn([] {
                             auto all = placements();
                             std::erase_if(all, [](const Placement& one) { return !one.over_gloo; });
                             return all;
                         }()),
                         [](const auto& row) { return name_of(row.param); });

TEST(two_levels, are_for_hosts_with_the_same_number_of_ranks_and_several) {
    const auto handle = make_handle(MPI_COMM_WORLD, ample_time);
    EXPECT_EQ(host_layout(handle, 7), nullptr) << "one host";
    if (session().size() == 3) {
        EXPECT_EQ(host_layout(handle, session().rank() / 2), nullptr) << "2 and 1";
    }
    EXPECT_EQ(make_two_level_lane(handle), nullptr) << "no layout";
    if (session().size() < 2) return;
    handle->layout = host_layout(handle, session().rank());
    ASSERT_NE(handle->layout, nullptr) << "a host for each";
    EXPECT_EQ(handle->layout->local_size, 1);
    EXPECT_EQ(handle->layout->hosts, session().size());
    EXPECT_EQ(make_two_level_lane(handle), nullptr) << "a host for each";
}

}  // namespace
}  // namespace tutti::test
