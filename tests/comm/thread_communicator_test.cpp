#include "thread_communicator.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "communicator_contract.hpp"

namespace tutti::test {
namespace {

class ThreadContract : public testing::TestWithParam<std::tuple<int, ContractCheck>> {};

TEST_P(ThreadContract, holds) {
    const auto& [ranks, check] = GetParam();
    run_on_threads(ranks, [run = check.run](Communicator& communicator) { run(communicator); });
}
INSTANTIATE_TEST_SUITE_P(threads, ThreadContract,
                         testing::Combine(testing::Range(1, 5), testing::ValuesIn(communicator_contract())),
                         [](const auto& row) {
                             return "np" + std::to_string(std::get<0>(row.param)) + "_" +
                                    std::get<1>(row.param).name;
                         });

/// What two ranks throw when they call different things.
template <class First, class Second>
std::string mismatch(const First& first, const Second& second) {
    std::array<std::string, 2> messages;
    try {
        run_on_threads(2, [&](Communicator& communicator) {
            try {
                communicator.rank() == 0 ? first(communicator) : second(communicator);
            } catch (const RunError& error) {
                messages[static_cast<std::size_t>(communicator.rank())] = error.what();
                throw;
            }
        });
    } catch (const RunError&) {
    }
    EXPECT_EQ(messages[0], messages[1]);
    return messages[0];
}

void expect_both(const std::string& message, const std::string& one, const std::string& other) {
    EXPECT_NE(message.find(one), std::string::npos) << message;
    EXPECT_NE(message.find(other), std::string::npos) << message;
}

template <class T, std::size_t count>
void sum_of(Communicator& communicator) {
    std::array<T, count> buffer{};
    communicator.all_reduce(view_of(std::span<T>(buffer)), ReduceOp::sum).wait();
}

TEST(thread_communicator, different_kinds_name_both) {
    expect_both(mismatch(sum_of<float, 3>, [](Communicator& communicator) { communicator.barrier(); }),
                "rank 0 calls all_reduce of 3 f32", "rank 1 calls barrier");
}

TEST(thread_communicator, different_counts_name_both) {
    expect_both(mismatch(sum_of<float, 3>, sum_of<float, 4>), "all_reduce of 3 f32", "all_reduce of 4 f32");
}

TEST(thread_communicator, different_types_name_both) {
    expect_both(mismatch(sum_of<float, 3>, sum_of<double, 3>), "all_reduce of 3 f32", "all_reduce of 3 f64");
}

TEST(thread_communicator, different_roots_name_both) {
    const auto from = [](int root) {
        return [root](Communicator& communicator) {
            std::array<float, 2> buffer{};
            communicator.broadcast(view_of(std::span<float>(buffer)), root).wait();
        };
    };
    expect_both(mismatch(from(0), from(1)), "root 0", "root 1");
}

TEST(thread_communicator, the_first_error_is_thrown_and_frees_the_others) {
    std::atomic<int> freed = 0;
    try {
        run_on_threads(3, [&](Communicator& communicator) {
            if (communicator.rank() == 1) throw DataError("sample 7 is torn");
            try {
                communicator.barrier();
            } catch (const PeerError& error) {
                EXPECT_NE(std::string(error.what()).find("rank 1 failed: sample 7 is torn"),
                          std::string::npos);
                ++freed;
                throw;
            }
        });
        FAIL() << "no error";
    } catch (const DataError& error) {
        EXPECT_STREQ(error.what(), "sample 7 is torn");
    }
    EXPECT_EQ(freed, 2);
}

TEST(thread_communicator, a_rank_that_ended_is_not_waited_for) {
    EXPECT_THROW(run_on_threads(2,
                                [](Communicator& communicator) {
                                    if (communicator.rank() == 0) communicator.barrier();
                                }),
                 PeerError);
}

TEST(thread_communicator, waiting_ends_with_the_timeout) {
    // Each waits on its own communicator for a peer that waits on the other.
    EXPECT_THROW(run_on_threads(
                     2,
                     [](Communicator& communicator) {
                         const auto other = communicator.duplicate();
                         (communicator.rank() == 0 ? communicator : *other).barrier();
                     },
                     0.05),
                 PeerError);
}

TEST(thread_communicator, agree_names_the_phase_when_a_peer_does_not_come) {
    try {
        run_on_threads(2, [](Communicator& communicator) {
            if (communicator.rank() == 0) agree(communicator, {}, "opening the data");
        });
        FAIL() << "no error";
    } catch (const PeerError& error) {
        EXPECT_EQ(std::string(error.what()).rfind("opening the data: ", 0), 0U) << error.what();
    }
}

TEST(thread_communicator, agree_keeps_the_own_failure_when_a_peer_does_not_come) {
    EXPECT_THROW(
        run_on_threads(2,
                       [](Communicator& communicator) {
                           if (communicator.rank() == 0) {
                               try {
                                   agree(communicator, {ExitCode::data, "no file"}, "opening the data");
                               } catch (const Error& error) {
                                   EXPECT_EQ(error.code(), ExitCode::data);
                                   EXPECT_STREQ(error.what(), "no file");
                                   throw;
                               }
                           }
                       }),
        Error);
}

}  // namespace
}  // namespace tutti::test
