#include "mpi_communicator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "butterfly_check.hpp"
#include "communicator_contract.hpp"
#include "exchange_lane.hpp"
#include "mpi_environment.hpp"
#include "tree_sum.hpp"
#include "tutti/comm/compression.hpp"

namespace tutti::test {
namespace {

class MpiContract : public testing::TestWithParam<ContractCheck> {};

TEST_P(MpiContract, holds) {
    GetParam().run(*session().world(ample_time));
}

TEST_P(MpiContract, holds_in_pieces) {
    // Real pieces have 2^31 elements; these cut every larger call of the contract.
    GetParam().run(*make_mpi_communicator(MPI_COMM_WORLD, ample_time, 1000));
}

/// The way of ranks on hosts of their own, on this one host.
std::unique_ptr<Communicator> exchanging_world(const ExchangeLane::Sizes& sizes) {
    const auto handle = make_handle(MPI_COMM_WORLD, ample_time);
    handle->lanes = std::make_shared<Lanes>();
    if (handle->size > 1) {
        handle->lane = std::make_shared<ExchangeLane>(*handle, sizes);
        handle->make_lane = make_exchange_lane;
    }
    return make_mpi_communicator(handle);
}

TEST_P(MpiContract, holds_by_direct_exchange) {
    GetParam().run(*exchanging_world({}));
}

TEST_P(MpiContract, holds_by_direct_exchange_in_small_messages) {
    GetParam().run(*exchanging_world({.message = 400, .flying = 2000, .whole = 64}));
}

INSTANTIATE_TEST_SUITE_P(mpi, MpiContract, testing::ValuesIn(communicator_contract()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(mpi_communicator, adds_along_a_tree_by_exchange_in_pairs) {
    expect_butterfly(*session().world(ample_time));
    expect_butterfly(*make_mpi_communicator(MPI_COMM_WORLD, ample_time, 1000));
    expect_butterfly(*exchanging_world({}));
}

TEST(mpi_communicator, a_duplicate_outlives_its_original) {
    auto original = session().world(ample_time)->duplicate();
    const auto copy = original->duplicate();
    original.reset();
    std::int64_t ranks = 1;
    copy->all_reduce(view_of(std::span(&ranks, 1)), ReduceOp::sum).wait();
    EXPECT_EQ(ranks, session().size());
}

TEST(mpi_communicator, a_work_outlives_its_communicator) {
    std::int64_t ranks = 1;
    Work work;
    {
        const auto communicator = session().world(ample_time)->duplicate();
        work = communicator->all_reduce(view_of(std::span(&ranks, 1)), ReduceOp::sum);
    }
    work.wait();
    EXPECT_EQ(ranks, session().size());
}

TEST(mpi_communicator, own_sums_are_along_a_tree_wherever_buffers_are_cut) {
    const int ranks = session().size();
    if (ranks == 1) return;
    const auto value = [](int rank, std::size_t i) {
        return 1.0F / static_cast<float>(3 + 7 * rank) + static_cast<float>(i % 1013) / 7.0F;
    };
    std::vector<float> expected(50'001);
    for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = tree_sum(0, ranks, [&](int rank) { return value(rank, i); });
    const auto shared = session().world(ample_time);
    const auto exchanging = exchanging_world({.message = 4000, .flying = 20000, .whole = 64});
    EXPECT_EQ(shared->all_reduce_path(), "shared memory");
    EXPECT_EQ(exchanging->all_reduce_path(), "direct exchange");
    EXPECT_TRUE(shared->sums_in_fixed_order() && exchanging->sums_in_fixed_order());
    for (Communicator* communicator : {shared.get(), exchanging.get()})
        for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{12'345}}) {
            std::vector<float> values(expected.size());
            for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(session().rank(), i);
            const std::span whole(values);
            Work first = communicator->all_reduce(view_of(whole.first(cut)), ReduceOp::sum);
            Work second = communicator->all_reduce(view_of(whole.subspan(cut)), ReduceOp::sum);
            second.wait();
            first.wait();
            EXPECT_EQ(values, expected) << communicator->all_reduce_path() << ", cut at " << cut;
        }
}

// As after SIGSTOP and SIGCONT: nobody polls for longer than the time-out, and then all are there.
TEST(mpi_communicator, time_in_which_a_rank_did_not_run_is_no_waiting) {
    if (session().size() == 1) return;
    const auto impatient = make_mpi_communicator(MPI_COMM_WORLD, 1.5);
    const auto other = session().world(ample_time)->duplicate();  // whose order is its own
    if (session().rank() == 0) {
        std::int64_t one = 1;
        Work sum = impatient->all_reduce(view_of(std::span(&one, 1)), ReduceOp::sum);
        EXPECT_FALSE(sum.test());
        std::this_thread::sleep_for(std::chrono::seconds(2));
        other->barrier();
        sum.wait();
        EXPECT_EQ(one, session().size());
        return;
    }
    other->barrier();
    std::int64_t one = 1;
    impatient->all_reduce(view_of(std::span(&one, 1)), ReduceOp::sum).wait();
}

TEST(mpi_communicator, own_reduce_scatters_have_the_bits_of_own_all_reduces) {
    const int ranks = session().size();
    if (ranks == 1) return;
    const auto shared = session().world(ample_time);
    const auto exchanging = exchanging_world({.message = 4000, .flying = 20000, .whole = 64});
    for (Communicator* communicator : {shared.get(), exchanging.get()})
        for (const std::size_t block : {std::size_t{1}, std::size_t{999}, std::size_t{20'000}}) {
            std::vector<float> sums(block * static_cast<std::size_t>(ranks));
            for (std::size_t i = 0; i < sums.size(); ++i)
                sums[i] =
                    1.0F / static_cast<float>(3 + 7 * session().rank()) + static_cast<float>(i % 1013) / 7.0F;
            std::vector<float> values = sums;
            const auto own = [&](std::vector<float>& whole) {
                return std::span(whole).subspan(block * static_cast<std::size_t>(session().rank()), block);
            };
            Work first = communicator->all_reduce(view_of(std::span(sums)), ReduceOp::sum);
            Work second =
                communicator->reduce_scatter(view_of(std::span(values)), view_of(own(values)), ReduceOp::sum);
            second.wait();
            first.wait();
            EXPECT_TRUE(std::ranges::equal(own(values), own(sums)))
                << communicator->all_reduce_path() << ", blocks of " << block;
            communicator->all_gather(view_of(own(values)), view_of(std::span(values))).wait();
            EXPECT_EQ(values, sums) << communicator->all_reduce_path() << ", blocks of " << block;
        }
}

TEST(mpi_communicator, direct_exchange_names_who_is_silent) {
    const int last = session().size() - 1;
    if (last == 0) return;         // no peers
    MPI_Comm own = MPI_COMM_NULL;  // what is on its way at the end finds no other message
    ASSERT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &own), MPI_SUCCESS);
    // One segment that is sent whole, and several.
    for (const std::size_t count : {3U, 5000U}) {
        const auto handle = make_handle(own, 0.3);
        for (int rank = 0; rank <= last; ++rank) handle->job->hosts.push_back("h" + std::to_string(rank));
        handle->lane =
            std::make_shared<ExchangeLane>(*handle, ExchangeLane::Sizes{.message = 400, .whole = 64});
        std::vector<float> values(count);
        if (session().rank() != last) try {
                const auto communicator = make_mpi_communicator(handle);
                communicator->all_reduce(view_of(std::span(values)), ReduceOp::sum).wait();
                ADD_FAILURE() << "no error";
            } catch (const PeerError& error) {
                const std::string text = error.what(), number = std::to_string(last);
                EXPECT_NE(text.find("peers: nothing came from rank " + number + " on h" + number + ";"),
                          std::string::npos)
                    << text;
            }
        session().world(ample_time)->barrier();
    }
}

/// What each rank is told of an all-reduce or a reduce-scatter of which the last rank has another count.
void expect_unlike_sizes(std::int64_t count, std::int64_t count_of_last, bool scatters) {
    const int ranks = session().size(), last = ranks - 1, rank = session().rank();
    MPI_Comm own = MPI_COMM_NULL;  // what is on its way at the end finds no other message
    ASSERT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &own), MPI_SUCCESS);
    const auto handle = make_handle(own, ample_time);
    for (int other = 0; other <= last; ++other) handle->job->hosts.push_back("h" + std::to_string(other));
    handle->lane = std::make_shared<ExchangeLane>(*handle, ExchangeLane::Sizes{.message = 400, .whole = 64});
    const auto communicator = make_mpi_communicator(handle);
    const auto block = static_cast<std::size_t>(rank == last ? count_of_last : count);
    std::vector<float> output(block), values(block * static_cast<std::size_t>(scatters ? ranks : 1));
    const auto bytes_of = [&](int other) { return (other == last ? count_of_last : count) * 4; };
    try {
        if (scatters)
            communicator
                ->reduce_scatter(view_of(std::span(values)), view_of(std::span(output)), ReduceOp::sum)
                .wait();
        else
            communicator->all_reduce(view_of(std::span(values)), ReduceOp::sum).wait();
        ADD_FAILURE() << "no error";
    } catch (const PeerError& error) {
        const std::string text = error.what(),
                          here = "rank " + std::to_string(rank) + " on h" + std::to_string(rank);
        EXPECT_EQ(text.rfind(scatters ? "reduce_scatter: rank " : "all_reduce: rank ", 0), 0U) << text;
        EXPECT_NE(text.find(" bytes where " + here + " expects " + std::to_string(bytes_of(rank)) + ": "),
                  std::string::npos)
            << text;
        if (rank != last) {
            // The library may not tell how much was cut off.
            const std::string number = std::to_string(last),
                              sent = count_of_last < count ? std::to_string(bytes_of(last)) + " bytes" : "";
            EXPECT_NE(text.find("rank " + number + " on h" + number + " has sent " + sent), std::string::npos)
                << text;
        }
    }
    session().world(ample_time)->barrier();
}

TEST(mpi_communicator, direct_exchange_of_unlike_sizes_is_an_error_on_all_ranks) {
    if (session().size() == 1) return;
    for (const bool scatters : {false, true}) {
        expect_unlike_sizes(10, 3, scatters);
        expect_unlike_sizes(3, 10, scatters);
    }
}

TEST(mpi_communicator, without_an_own_way_all_reduces_are_mpis) {
    const auto plain = make_mpi_communicator(MPI_COMM_WORLD, ample_time);
    EXPECT_EQ(plain->all_reduce_path(), "MPI_Iallreduce");
    EXPECT_EQ(plain->bf16_path(), session().size() > 1 ? "direct exchange" : "MPI_Iallreduce");
    const auto compressing = make_compressing_communicator(plain->duplicate());
    EXPECT_EQ(compressing->all_reduce_path(), plain->bf16_path());
    EXPECT_TRUE(compressing->sums_in_fixed_order()) << "whatever the library's order";
    EXPECT_EQ(plain->sums_in_fixed_order(), session().size() <= 2) << "the library's order";
}

TEST(mpi_communicator, who_waits_for_mpi_drives_the_all_reduces_of_others) {
    // Rank 0 waits for the broadcast first, its sender for the all-reduce of another communicator first.
    const auto one = session().world(ample_time)->duplicate();
    const auto other = one->duplicate();
    const int last = session().size() - 1;
    std::vector<float> sum(300'000, 1);
    std::vector<unsigned char> text(300'000, session().rank() == last ? 7 : 0);
    Work reduction = one->all_reduce(view_of(std::span(sum)), ReduceOp::sum);
    if (session().rank() == last) reduction.wait();
    Work broadcast = other->broadcast(view_of(std::span(text)), last);
    broadcast.wait();
    reduction.wait();
    EXPECT_EQ(sum.back(), static_cast<float>(session().size()));
    EXPECT_EQ(text.back(), 7);
}

/// Asks for one transfer only, which its peers begin after they waited for another.
void ask_for_the_first_while_peers_wait_for(const std::function<Work()>& other, Communicator& first) {
    std::vector<float> sum(100'000, 1);
    Work others = other();
    if (session().rank() > 0) others.wait();
    Work reduction = first.all_reduce(view_of(std::span(sum)), ReduceOp::sum);
    while (!reduction.test()) {
    }
    others.wait();
    EXPECT_EQ(sum.back(), static_cast<float>(session().size()));
}

TEST(mpi_communicator, who_asks_for_one_transfer_drives_all_others) {
    const auto exchanging = exchanging_world({.message = 4000, .flying = 20000, .whole = 64});
    const auto exchanging_other = exchanging->duplicate();
    const auto shared = session().world(ample_time);
    const auto shared_other = shared->duplicate();
    const auto plain = make_mpi_communicator(MPI_COMM_WORLD, ample_time);
    // Larger than what is on its way without anybody's help.
    std::vector<float> sum(300'000);
    std::vector<unsigned char> text(3'000'000);
    const auto reduce = [&](Communicator& other) {
        std::ranges::fill(sum, 1.0F);
        return other.all_reduce(view_of(std::span(sum)), ReduceOp::sum);
    };
    const auto send = [&](Communicator& other) {
        return other.broadcast(view_of(std::span(text)), session().size() - 1);
    };
    ask_for_the_first_while_peers_wait_for([&] { return reduce(*exchanging_other); }, *exchanging);
    ask_for_the_first_while_peers_wait_for([&] { return send(*plain); }, *exchanging);
    ask_for_the_first_while_peers_wait_for([&] { return reduce(*shared_other); }, *shared);
    ask_for_the_first_while_peers_wait_for([&] { return send(*plain); }, *shared);
    ask_for_the_first_while_peers_wait_for([&] { return reduce(*plain); }, *shared);
}

TEST(mpi_communicator, errors_name_the_call_the_reason_and_the_rank) {
    try {
        check_mpi(MPI_ERR_COUNT, "MPI_Iallreduce", 3);
        FAIL() << "no error";
    } catch (const PeerError& error) {
        const std::string text = error.what();
        EXPECT_EQ(text.rfind("MPI_Iallreduce failed on rank 3: ", 0), 0U) << text;
        // The library's own words: "MPI_ERR_COUNT: …" (Open MPI), "Invalid count" (MPICH).
        EXPECT_TRUE(text.find("MPI_ERR_COUNT") != std::string::npos ||
                    text.find("Invalid count") != std::string::npos)
            << text;
        EXPECT_NE(text.find(" (code " + std::to_string(MPI_ERR_COUNT) + ")"), std::string::npos) << text;
        EXPECT_EQ(error.code(), ExitCode::peer);
    }
}

TEST(mpi_communicator, mpi_errors_are_thrown_not_fatal) {
    // A piece of more elements than an int holds gives MPI a negative count. MPICH does not look at it on one
    // rank.
    if (session().size() == 1) return;
    const auto communicator =
        make_mpi_communicator(MPI_COMM_WORLD, ample_time, std::int64_t{1} << 40)->duplicate();
    float element = 0;
    const TensorView impossible{reinterpret_cast<std::byte*>(&element), DType::f32,
                                Shape{(std::int64_t{1} << 32) - 1}};
    EXPECT_THROW(communicator->all_reduce(impossible, ReduceOp::sum), PeerError);
    EXPECT_THROW(communicator->barrier(), PeerError);
}

TEST(mpi_session, knows_its_place) {
    EXPECT_EQ(session().world(ample_time)->size(), session().size());
    EXPECT_EQ(session().world(ample_time)->rank(), session().rank());
    EXPECT_EQ(session().world(ample_time)->backend(), "mpi");
    // The tests run on one host.
    EXPECT_EQ(session().local_size(), session().size());
    EXPECT_EQ(session().local_rank(), session().rank());
    EXPECT_FALSE(session().host().empty());
}

TEST(mpi_session, library_version_is_one_line) {
    const std::string version = MpiSession::library_version();
    EXPECT_FALSE(version.empty());
    EXPECT_EQ(version.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace tutti::test
