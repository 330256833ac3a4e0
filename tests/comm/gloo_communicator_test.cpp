// Ranks are processes of mpirun, which brings them together; their collectives go through gloo.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>

#include "butterfly_check.hpp"
#include "communicator_contract.hpp"
#include "gloo_mesh.hpp"
#include "mpi_environment.hpp"
#include "tutti/base/host_name.hpp"
#include "tutti/comm/gloo.hpp"

namespace tutti::test {
namespace {

std::unique_ptr<Communicator> connect(double seconds = ample_time) {
    return make_gloo_communicator(*session().world(ample_time), "127.0.0.1", seconds);
}

/// All ranks but rank 0, as messages name them.
std::string others() {
    std::string names = session().size() == 2 ? "rank 1" : "ranks 1";
    names += " on " + host_name();
    for (int rank = 2; rank < session().size(); ++rank)
        names += ", " + std::to_string(rank) + " on " + host_name();
    return names;
}

class GlooContract : public testing::TestWithParam<ContractCheck> {
  protected:
    void SetUp() override {
        if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    }
};

TEST_P(GlooContract, holds) {
    GetParam().run(*connect());
}

INSTANTIATE_TEST_SUITE_P(gloo, GlooContract, testing::ValuesIn(communicator_contract()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(gloo_communicator, adds_along_a_tree_by_exchange_in_pairs) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    expect_butterfly(*connect());
}

// As large jobs begin: 1024 files may be open, and each rank needs one for each other rank.
TEST(gloo_communicator, connects_more_ranks_than_files_may_be_open_at_first) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    const auto first = connect();
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = dup(STDERR_FILENO);
    close(next);
    const rlimit few{static_cast<rlim_t>(next), before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    try {
        std::int64_t ranks = 1;
        first->duplicate()->all_reduce(view_of(std::span(&ranks, 1)), ReduceOp::sum).wait();
        EXPECT_EQ(ranks, session().size());
    } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
    }
    setrlimit(RLIMIT_NOFILE, &before);
}

TEST(gloo_communicator, a_duplicate_outlives_its_original_and_a_work_its_communicator) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    std::int64_t ranks = 1;
    Work work;
    {
        auto original = connect();
        const auto copy = original->duplicate();
        original.reset();
        work = copy->all_reduce(view_of(std::span(&ranks, 1)), ReduceOp::sum);
    }
    work.wait();
    EXPECT_EQ(ranks, session().size());
}

TEST(gloo_communicator, sums_have_the_bits_of_mpis_shared_memory) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    const auto gloo = connect();
    const auto mpi = session().world(ample_time);
    // 10 MB go in segments, 8 KiB whole.
    for (const std::size_t count : {1U, 3U, 2048U, 2049U, 70'001U, 2'500'001U}) {
        std::vector<float> by_gloo(count);
        for (std::size_t i = 0; i < count; ++i)
            by_gloo[i] = 1.0F / static_cast<float>(3 + i + 5 * static_cast<std::size_t>(session().rank()));
        auto by_mpi = by_gloo;
        gloo->all_reduce(view_of(std::span(by_gloo)), ReduceOp::sum).wait();
        mpi->all_reduce(view_of(std::span(by_mpi)), ReduceOp::sum).wait();
        EXPECT_EQ(by_gloo, by_mpi) << count;
    }
}

TEST(gloo_communicator, a_silent_peer_is_an_error_that_names_the_call_and_the_rank) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    if (session().size() == 1) return;  // no peers
    const auto communicator = connect(0.3);
    const auto other = communicator->duplicate();
    if (session().rank() == 0) {
        std::vector<float> buffer(1000);
        try {
            communicator->all_reduce(view_of(std::span(buffer)), ReduceOp::sum).wait();
            ADD_FAILURE() << "no error";
        } catch (const PeerError& error) {
            const std::string text = error.what();
            EXPECT_EQ(text.rfind("all_reduce of 1000 f32: rank 0 on ", 0), 0U) << text;
            EXPECT_NE(text.find("distributed.timeout"), std::string::npos) << text;
            EXPECT_NE(text.find(": nothing came from " + others() + ")"), std::string::npos) << text;
        }
        // Known to be lost: nothing waits again, on the duplicate neither.
        EXPECT_THROW(communicator->barrier(), PeerError);
        EXPECT_THROW(other->all_reduce(view_of(std::span(buffer)), ReduceOp::max), PeerError);
    }
    session().world(ample_time)->barrier();
}

TEST(gloo_communicator, every_collective_names_who_is_silent) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    if (session().size() == 1) return;  // no peers
    struct Call {
        std::string name, silent;
        std::function<void(Communicator&)> make;
    };
    std::vector<float> block(3000), blocks(3000 * static_cast<std::size_t>(session().size()));
    const std::string one = "rank 1 on " + host_name();
    const std::vector<Call> calls = {
        {"barrier", others(), [](Communicator& ranks) { ranks.barrier(); }},
        {"broadcast of 3000 f32", one,
         [&](Communicator& ranks) { ranks.broadcast(view_of(std::span(block)), 1).wait(); }},
        {"all_gather of 3000 f32", others(),
         [&](Communicator& ranks) {
             ranks.all_gather(view_of(std::span(block)), view_of(std::span(blocks))).wait();
         }},
        {"reduce_scatter of", others(),
         [&](Communicator& ranks) {
             ranks.reduce_scatter(view_of(std::span(blocks)), view_of(std::span(block)), ReduceOp::sum)
                 .wait();
         }},
        {"exchange of 3000 f32", one, [&](Communicator& ranks) {
             ranks.exchange(view_of(std::span(block)), view_of(std::span(blocks).first(3000)), 1).wait();
         }}};
    for (const Call& call : calls) {
        const auto communicator = connect(0.3);
        if (session().rank() == 0) try {
                call.make(*communicator);
                ADD_FAILURE() << call.name << ": no error";
            } catch (const PeerError& error) {
                const std::string text = error.what();
                EXPECT_EQ(text.rfind(call.name, 0), 0U) << text;
                EXPECT_NE(text.find(": nothing came from " + call.silent + ")"), std::string::npos) << text;
            }
        session().world(ample_time)->barrier();
    }
}

TEST(gloo_communicator, a_peer_that_left_is_noticed_at_once) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    if (session().size() == 1) return;  // no peers
    auto communicator = connect(0);     // waits for ever
    if (session().rank() == session().size() - 1) communicator.reset();
    if (communicator) {
        EXPECT_THROW(communicator->barrier(), PeerError);
    }
    communicator.reset();
    session().world(ample_time)->barrier();
}

/// By rank.
std::vector<std::int64_t> processes_of_all(Communicator& control) {
    std::vector<std::int64_t> processes(static_cast<std::size_t>(session().size()));
    std::int64_t mine = getpid();
    control.all_gather(view_of(std::span(&mine, 1)), view_of(std::span(processes))).wait();
    return processes;
}

/// All but this one, for longer than a time-out of 2 s; who has given up by then does so before it returns.
void suspend_others(const std::vector<std::int64_t>& processes) {
    const auto to_others = [&](int signal) {
        for (const std::int64_t process : processes)
            if (process != getpid()) kill(static_cast<pid_t>(process), signal);
    };
    to_others(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(2200));
    to_others(SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

TEST(gloo_communicator, time_in_which_a_rank_was_suspended_does_not_count) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    if (session().size() == 1) return;  // no peers
    const auto communicator = connect(2);
    const auto control = session().world(ample_time);
    const std::vector<std::int64_t> processes = processes_of_all(*control);
    std::int64_t ranks = 1;
    const bool last = session().rank() == session().size() - 1;
    Work work;
    if (!last) work = communicator->all_reduce(view_of(std::span(&ranks, 1)), ReduceOp::sum);
    control->barrier();
    if (last) {
        suspend_others(processes);
        work = communicator->all_reduce(view_of(std::span(&ranks, 1)), ReduceOp::sum);
    }
    work.wait();
    EXPECT_EQ(ranks, session().size());
}

TEST(gloo_communicator, calls_of_unlike_sizes_end_at_the_time_out_which_tells_them) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    if (session().size() == 1) return;  // no peers
    const int last = session().size() - 1;
    // The message that is shorter, and the one that is longer than awaited.
    for (const std::size_t count : {3U, 300U}) {
        const auto communicator = connect(0.5);
        std::vector<float> buffer(session().rank() == last ? count : 10);
        try {
            communicator->all_reduce(view_of(std::span(buffer)), ReduceOp::sum).wait();
            ADD_FAILURE() << "no error";
        } catch (const PeerError& error) {
            const std::string text = error.what();
            EXPECT_NE(text.find("the ranks wait in unlike calls (rank"), std::string::npos) << text;
            EXPECT_NE(text.find(": all_reduce of 10 f32; rank"), std::string::npos) << text;
            // Which messages came gloo does not always tell, but none is named that did.
            if (session().rank() != last) {
                EXPECT_TRUE(text.find("nothing came from rank " + std::to_string(last) + " on ") !=
                                std::string::npos ||
                            text.find("nothing came from 1 of ranks ") != std::string::npos)
                    << text;
            }
            EXPECT_NE(text.find("rank " + std::to_string(last) + ": all_reduce of " + std::to_string(count) +
                                " f32"),
                      std::string::npos)
                << text;
        }
        session().world(ample_time)->barrier();
    }
}

/// Connects; the last rank begins with it when `late` has returned.
void connect_late(double seconds, const std::function<void()>& late) {
    const auto control = session().world(ample_time);
    const auto exchange = [&, calls = 0](const std::string& mine) mutable {
        auto all = all_gather_text(*control, mine);
        if (calls++ == 0 && session().rank() == session().size() - 1) late();
        return all;
    };
    const GlooPlace place{session().rank(), session().size(), "host" + std::to_string(session().rank()),
                          "127.0.0.1", ""};
    connect_gloo(place, exchange, seconds, {});
}

TEST(gloo_communicator, time_in_which_a_rank_was_suspended_while_it_connects_does_not_count) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    if (session().size() == 1) return;  // no peers
    const auto control = session().world(ample_time);
    const std::vector<std::int64_t> processes = processes_of_all(*control);
    connect_late(2, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // they wait for this rank by then
        suspend_others(processes);
    });
    control->barrier();
}

TEST(gloo_communicator, a_rank_that_ends_while_the_others_connect_is_named) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    // Of several ranks one may give up before another has taken its connection: gloo_uncaught_test.
    if (session().size() != 2) return;
    const auto control = session().world(ample_time);
    int calls = 0;
    const auto exchange = [&](const std::string& mine) {
        // As Rendezvous says it on ranks whose connection came about before.
        if (calls++ > 0) throw PeerError("rank 1 on host1 is lost");
        auto all = all_gather_text(*control, mine);
        if (session().rank() == 1) throw std::runtime_error("it ends");
        return all;
    };
    const GlooPlace place{session().rank(), session().size(), "host" + std::to_string(session().rank()),
                          "127.0.0.1", ""};
    try {
        connect_gloo(place, exchange, 1, {});
        ADD_FAILURE() << "no error";
    } catch (const PeerError& error) {
        const std::string text = error.what();
        if (session().rank() == 1) {
            EXPECT_TRUE(text.starts_with("rank 1 on host1 cannot connect to its peers: it ends")) << text;
        } else {
            EXPECT_TRUE(text.starts_with("rank 0 on host0 cannot connect to rank 1 on host1: ") ||
                        text == "rank 1 on host1 is lost")
                << text;
        }
    }
    control->barrier();
}

TEST(gloo_communicator, an_interface_that_does_not_exist_is_refused) {
    if (!gloo_absence().empty()) GTEST_SKIP() << gloo_absence();
    ASSERT_EQ(setenv("GLOO_SOCKET_IFNAME", "nosuch0", 1), 0);
    try {
        connect();
        ADD_FAILURE() << "no error";
    } catch (const LaunchError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("GLOO_SOCKET_IFNAME is nosuch0"), std::string::npos) << text;
        EXPECT_NE(text.find("lo"), std::string::npos) << text;
    }
    unsetenv("GLOO_SOCKET_IFNAME");
}

}  // namespace
}  // namespace tutti::test
