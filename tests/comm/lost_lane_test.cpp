// What ends an all-reduce of an own way, and what the calls after it are told.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "exchange_lane.hpp"
#include "mpi_communicator.hpp"
#include "mpi_environment.hpp"

namespace tutti::test {
namespace {

/// A communicator of the test's own: what is on its way at the end finds no other message.
MPI_Comm ranks_of_a_lane() {
    MPI_Comm own = MPI_COMM_NULL;
    EXPECT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &own), MPI_SUCCESS);
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    return own;
}

std::string error_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const PeerError& error) {
        return error.what();
    }
    return "no error";
}

void add_up(Communicator& communicator, std::size_t count) {
    std::vector<float> values(count);
    communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum).wait();
}

// As the session's: made before any communicator, with a job of its own.
TEST(lost_lane, is_lost_for_all_communicators_that_use_it_at_their_next_call) {
    const int last = session().size() - 1, rank = session().rank();
    if (last == 0) return;
    const MPI_Comm own = ranks_of_a_lane();
    const auto start = make_handle(own, ample_time);
    start->lanes = std::make_shared<Lanes>();
    start->lane = std::make_shared<ExchangeLane>(*start, ExchangeLane::Sizes());
    const auto world = [&] {
        const auto handle = make_handle(own, ample_time);
        handle->lanes = start->lanes;
        handle->lane = start->lane;
        return make_mpi_communicator(handle);
    };
    const auto one = world(), other = world(), third = world();
    const std::string cause = "their buffers differ in size";
    EXPECT_NE(error_of([&] { add_up(*one, rank == last ? 3 : 10); }).find(cause), std::string::npos);
    for (const auto& next :
         std::vector<std::function<void()>>{[&] { add_up(*one, 10); }, [&] { one->barrier(); },
                                            [&] { add_up(*other, 10); }, [&] { third->barrier(); }}) {
        const std::string text = error_of(next);
        EXPECT_NE(text.find("cannot reach its peers: "), std::string::npos) << text;
        EXPECT_NE(text.find(cause), std::string::npos) << text;
    }
    session().world(ample_time)->barrier();
}

TEST(lost_lane, tells_at_the_time_out_of_calls_that_differ) {
    const int last = session().size() - 1, rank = session().rank();
    if (last == 0) return;
    const MPI_Comm own = ranks_of_a_lane();
    // Rank 0 has the least patience; the others hear of it.
    const auto handle = make_handle(own, rank == 0 ? 0.8 : ample_time);
    handle->job->roll = std::make_shared<RollCall>(own, rank, last + 1);
    handle->lane = std::make_shared<ExchangeLane>(*handle, ExchangeLane::Sizes{.message = 400, .whole = 64});
    const auto communicator = make_mpi_communicator(handle);
    // The same segments at first, and then none of the last rank's, which is in the next call.
    const std::int64_t segment = 100 * (last == 1 ? 1 : last + 1);
    const std::string text = error_of([&] {
        add_up(*communicator, static_cast<std::size_t>(segment) * (rank == last ? 2 : 3));
        communicator->barrier();
    });
    const std::string number = std::to_string(last);
    EXPECT_NE(text.find("the ranks wait in unlike calls ("), std::string::npos) << text;
    EXPECT_NE(text.find(": all_reduce of " + std::to_string(3 * segment) + " f32; rank " + number +
                        ": barrier of 0 u8"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("same configuration"), std::string::npos) << text;
    session().world(ample_time)->barrier();
}

}  // namespace
}  // namespace tutti::test
