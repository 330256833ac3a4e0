#include "roll_call.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "mpi_communicator.hpp"
#include "mpi_environment.hpp"
#include "mpi_transfer.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;
using Ranks = std::vector<int>;

/// A communicator of the test's own: what is on its way at the end finds no other message. Not freed, as
/// peers may still send.
MPI_Comm own_ranks() {
    MPI_Comm own = MPI_COMM_NULL;
    EXPECT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &own), MPI_SUCCESS);
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    return own;
}

void all_meet() {
    session().world(30)->barrier();
}

/// What a rank that waits hears, within some seconds.
std::optional<RollCall::Verdict> hear_all(RollCall& roll, const std::string& call) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (std::chrono::steady_clock::now() < end) {
        if (auto verdict = roll.listen(call)) return verdict;
        std::this_thread::sleep_for(1ms);
    }
    return {};
}
std::optional<Ranks> hear(RollCall& roll) {
    const auto verdict = hear_all(roll, "barrier");
    return verdict ? std::optional(verdict->silent) : std::nullopt;
}

TEST(roll_call, names_the_rank_that_does_not_wait_on_all_that_do) {
    const int size = session().size(), rank = session().rank();
    // Each in turn is silent, and each in turn is the first whose time is over.
    for (int absent = 0; absent < size; ++absent)
        for (int first = 0; first < size; ++first) {
            if (first == absent || (absent == 0 && first != 1)) continue;
            RollCall roll(own_ranks(), rank, size, {.answers = 500ms, .verdict = 2000ms});
            all_meet();
            if (rank == first) {
                EXPECT_EQ(roll.ask("barrier").silent, Ranks{absent});
            } else if (rank != absent && absent != 0) {
                // Without rank 0 a rank whose time is not over learns nothing.
                EXPECT_EQ(hear(roll), Ranks{absent});
            }
            all_meet();
        }
}

TEST(roll_call, names_nobody_where_all_wait_and_is_quick_then) {
    const int size = session().size(), rank = session().rank();
    if (size == 1) return;
    RollCall roll(own_ranks(), rank, size, {.answers = 100s, .verdict = 100s});
    all_meet();
    if (rank == size - 1) {
        EXPECT_EQ(roll.ask("barrier").silent, Ranks{});
    } else {
        EXPECT_EQ(hear(roll), Ranks{});
    }
    all_meet();
}

TEST(roll_call, tells_the_calls_where_they_differ_with_the_ranks_in_each) {
    const int size = session().size(), rank = session().rank();
    if (size == 1) return;
    RollCall roll(own_ranks(), rank, size, {.answers = 100s, .verdict = 100s});
    all_meet();
    const std::string call = rank == 1 ? "all_reduce of 3 f32" : "barrier";
    const std::string others = size == 2 ? "rank 0" : size == 3 ? "ranks 0, 2" : "ranks 0, 2, 3";
    const std::string expected = others + ": barrier; rank 1: all_reduce of 3 f32";
    if (rank == size - 1) {
        const auto verdict = roll.ask(call);
        EXPECT_EQ(verdict.silent, Ranks{});
        EXPECT_EQ(verdict.unlike, expected);
    } else {
        const auto verdict = hear_all(roll, call);
        ASSERT_TRUE(verdict);
        EXPECT_EQ(verdict->unlike, expected);
    }
    all_meet();
}

TEST(roll_call, tells_no_calls_where_one_is_silent_because_others_may_be_a_call_further) {
    const int last = session().size() - 1, rank = session().rank();
    if (last < 2) return;
    RollCall roll(own_ranks(), rank, last + 1, {.answers = 500ms, .verdict = 100s});
    all_meet();
    if (rank != last) {
        const std::string call = rank == 0 ? "all_reduce of 3 f32" : "barrier";
        const auto verdict = rank == 0 ? roll.ask(call) : hear_all(roll, call);
        ASSERT_TRUE(verdict);
        EXPECT_EQ(verdict->silent, Ranks{last});
        EXPECT_EQ(verdict->unlike, "");
    }
    all_meet();
}

TEST(roll_call, hears_nothing_where_nobody_has_waited_too_long) {
    RollCall roll(own_ranks(), session().rank(), session().size());
    EXPECT_FALSE(roll.listen("barrier"));
    all_meet();
}

TEST(roll_call, tells_who_is_missing_in_mpis_own_collectives) {
    const int last = session().size() - 1, rank = session().rank();
    if (last == 0) return;
    const MPI_Comm own = own_ranks();
    // Rank 0 has the least patience; the others hear of it.
    const auto handle = make_handle(own, rank == 0 ? 0.5 : 30);
    for (int peer = 0; peer <= last; ++peer) handle->job->hosts.push_back("h" + std::to_string(peer));
    handle->job->roll = std::make_shared<RollCall>(own, rank, last + 1);
    if (rank != last) {
        const auto communicator = make_mpi_communicator(handle);
        std::vector<float> values(1000);
        try {
            communicator->all_reduce(view_of(std::span(values)), ReduceOp::sum).wait();
            ADD_FAILURE() << "no error";
        } catch (const PeerError& error) {
            const std::string text = error.what(), number = std::to_string(last);
            EXPECT_NE(text.find(": nothing came from rank " + number + " on h" + number + "; "),
                      std::string::npos)
                << text;
        }
    }
    all_meet();
}

}  // namespace
}  // namespace tutti::test
