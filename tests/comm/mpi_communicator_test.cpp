#include "mpi_communicator.hpp"

#include <gtest/gtest.h>

#include "communicator_contract.hpp"
#include "mpi_environment.hpp"

namespace tutti::test {
namespace {

constexpr double timeout = 30;

class MpiContract : public testing::TestWithParam<ContractCheck> {};

TEST_P(MpiContract, holds) {
    GetParam().run(*session().world(timeout));
}

TEST_P(MpiContract, holds_in_pieces) {
    // Real pieces have 2^31 elements; these cut every larger call of the contract.
    GetParam().run(*make_mpi_communicator(MPI_COMM_WORLD, timeout, 1000));
}

INSTANTIATE_TEST_SUITE_P(mpi, MpiContract, testing::ValuesIn(communicator_contract()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(mpi_communicator, a_duplicate_outlives_its_original) {
    auto original = session().world(timeout)->duplicate();
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
        const auto communicator = session().world(timeout)->duplicate();
        work = communicator->all_reduce(view_of(std::span(&ranks, 1)), ReduceOp::sum);
    }
    work.wait();
    EXPECT_EQ(ranks, session().size());
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
    // A piece of more elements than an int holds gives MPI a negative count.
    const auto communicator =
        make_mpi_communicator(MPI_COMM_WORLD, timeout, std::int64_t{1} << 40)->duplicate();
    float element = 0;
    const TensorView impossible{reinterpret_cast<std::byte*>(&element), DType::f32,
                                Shape{(std::int64_t{1} << 32) - 1}};
    EXPECT_THROW(communicator->all_reduce(impossible, ReduceOp::sum), PeerError);
    EXPECT_THROW(communicator->barrier(), PeerError);
}

TEST(mpi_session, knows_its_place) {
    EXPECT_EQ(session().world(timeout)->size(), session().size());
    EXPECT_EQ(session().world(timeout)->rank(), session().rank());
    EXPECT_EQ(session().world(timeout)->backend(), "mpi");
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
