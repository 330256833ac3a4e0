// NCCL's rules and failures, on a NCCL and GPUs that are not there; ranks are threads.
#include "nccl_communicator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "butterfly_check.hpp"
#include "communicator_contract.hpp"
#include "nccl_rank.hpp"
#include "tutti/base/host_name.hpp"

namespace tutti::test {
namespace {
class NcclContract : public testing::TestWithParam<std::tuple<int, int, ContractCheck>> {};

TEST_P(NcclContract, holds) {
    const auto& [ranks, polls, check] = GetParam();
    run_on_threads(ranks, [polls = polls, run = check.run](Communicator& world) {
        Rank rank(world, {.polls = polls});
        run(*rank.communicator(world));
        rank.gpu->finish();
        EXPECT_EQ(rank.nccl->violations(), std::vector<std::string>());
        EXPECT_EQ(std::ranges::count(rank.nccl->calls(), "init_rank"),
                  std::ranges::count(rank.nccl->calls(), "destroy"));
    });
}
INSTANTIATE_TEST_SUITE_P(fake, NcclContract,
                         testing::Combine(testing::Range(1, 5), testing::Values(0, 3),
                                          testing::ValuesIn(communicator_contract())),
                         [](const auto& row) {
                             return "np" + std::to_string(std::get<0>(row.param)) + "_polls" +
                                    std::to_string(std::get<1>(row.param)) + "_" +
                                    std::get<2>(row.param).name;
                         });

TEST(NcclButterfly, HasTheBitsOfTheTree) {
    for (const int polls : {0, 3})
        for (const int ranks : {2, 3, 4})
            run_on_threads(ranks, [polls](Communicator& world) {
                Rank rank(world, {.polls = polls});
                expect_butterfly(*rank.communicator(world));
                rank.gpu->finish();
                EXPECT_EQ(rank.nccl->violations(), std::vector<std::string>());
            });
}

TEST(NcclExchange, that_fails_names_call_and_rank) {
    run_on_threads(2, [](Communicator& world) {
        Rank rank(world, {.answers = {{"exchange", NcclResult::remote_error}}});
        const auto communicator = rank.communicator(world);
        std::vector<float> mine(8), theirs(8);
        try {
            communicator->exchange(view_of(std::span(mine)), view_of(std::span(theirs)), 1 - world.rank());
            ADD_FAILURE() << "no error";
        } catch (const PeerError& error) {
            EXPECT_NE(std::string(error.what()).find("exchange of 8 f32 on rank"), std::string::npos)
                << error.what();
        }
    });
}

struct Code {
    NcclResult result;
    int exit;
    std::string remedy;
};

class NcclErrors : public testing::TestWithParam<Code> {};

TEST_P(NcclErrors, of_a_call_name_it_the_rank_the_host_and_the_remedy) {
    const auto& [result, exit, remedy] = GetParam();
    const std::string expected = "exit " + std::to_string(exit) +
                                 ": all_reduce of 8 f32 on rank 0 (node0) failed: fake error " +
                                 std::to_string(static_cast<int>(result)) + " (code " +
                                 std::to_string(static_cast<int>(result)) + "); ";
    const std::string message = failure_of_all_reduce({.answers = {{"all_reduce", result}}});
    EXPECT_EQ(message.substr(0, expected.size()), expected);
    EXPECT_NE(message.find(remedy), std::string::npos) << message;
}

TEST_P(NcclErrors, that_come_later_are_found_by_polling) {
    const auto& [result, exit, remedy] = GetParam();
    const std::string message = failure_of_all_reduce({.async = result, .stalls = true});
    EXPECT_EQ(message.substr(0, message.find(" failed")),
              "exit " + std::to_string(exit) + ": all_reduce of 8 f32 on rank 0 (node0)");
    EXPECT_NE(message.find(remedy), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(codes, NcclErrors,
                         testing::Values(Code{NcclResult::unhandled_cuda_error, 1, "nvidia-smi"},
                                         Code{NcclResult::system_error, 5, "NCCL_SOCKET_IFNAME"},
                                         Code{NcclResult::internal_error, 1, "please report it"},
                                         Code{NcclResult::invalid_argument, 1, "please report it"},
                                         Code{NcclResult::invalid_usage, 2, "distributed.backend: mpi"},
                                         Code{NcclResult::remote_error, 5, "first error of another rank"}),
                         [](const auto& row) {
                             return "code" + std::to_string(static_cast<int>(row.param.result));
                         });

TEST(NcclRecording, has_transfers_that_are_joined_and_not_asked_for) {
    const std::string message =
        failure({.polls = 2}, settings_of(0), [](Communicator& communicator, Rank& rank) {
            EXPECT_EQ(communicator.why_not_recordable(), "");
            std::vector<float> values(8, 3);
            rank.gpu->recording = true;
            Work work = communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum);
            EXPECT_FALSE(work.test());
            work.wait();
            EXPECT_TRUE(work.test()) << "it is over for the host";
            rank.gpu->recording = false;
            communicator.follow_recorded().wait();
            EXPECT_EQ(values, std::vector<float>(8, 3));
            EXPECT_EQ(rank.nccl->violations(), std::vector<std::string>());
        });
    EXPECT_EQ(message, "no error");
}

TEST(NcclRecording, that_does_not_end_is_given_up_like_a_transfer) {
    const std::string message =
        failure({.stalls = true}, impatient(), [](Communicator& communicator, Rank& rank) {
            std::vector<float> values(8);
            rank.gpu->recording = true;
            communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum).wait();
            rank.gpu->recording = false;
            communicator.follow_recorded().wait();
        });
    EXPECT_EQ(message.substr(0, 6), "exit 5") << message;
    EXPECT_NE(message.find("a recorded step"), std::string::npos) << message;
}

TEST(NcclTimeout, of_a_transfer_names_call_rank_and_host_and_aborts) {
    std::vector<std::string> calls;
    const std::string message =
        failure({.stalls = true}, impatient(), [&](Communicator& communicator, Rank& rank) {
            std::vector<float> values(8);
            Work work = communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum);
            EXPECT_THROW(work.wait(), PeerError);
            calls = rank.nccl->calls();
            communicator.broadcast(view_of(std::span(values)), 0);
        });
    EXPECT_EQ(calls, (std::vector<std::string>{"unique_id", "init_rank", "all_reduce", "abort"}));
    EXPECT_EQ(message,
              "exit 5: rank 0 on node7 cannot reach its peers: all_reduce of 8 f32 timed out before");
}

/// Hosts that meet as `hosts` do, and lose a peer as soon as they are asked.
class LosesAPeer final : public Communicator {
  public:
    LosesAPeer(std::unique_ptr<Communicator> hosts, std::vector<std::string>& asked)
        : hosts_(std::move(hosts)), asked_(asked) {}

    int rank() const override { return hosts_->rank(); }
    int size() const override { return hosts_->size(); }
    std::string backend() const override { return hosts_->backend(); }
    Work all_reduce(const TensorView& buffer, ReduceOp op) override { return hosts_->all_reduce(buffer, op); }
    Work reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op) override {
        return hosts_->reduce_scatter(input, output, op);
    }
    Work all_gather(const TensorView& input, const TensorView& output) override {
        return hosts_->all_gather(input, output);
    }
    Work broadcast(const TensorView& buffer, int root) override { return hosts_->broadcast(buffer, root); }
    void barrier() override { hosts_->barrier(); }
    void watch_peers(const std::string& call, double waited) override {
        asked_.push_back(call + ", " + std::to_string(static_cast<int>(waited)) + " s");
        throw PeerError("rank 1 on node8 has ended");
    }
    std::unique_ptr<Communicator> duplicate() override { return hosts_->duplicate(); }
    [[noreturn]] void abort(ExitCode code) noexcept override { std::_Exit(static_cast<int>(code)); }

  private:
    std::unique_ptr<Communicator> hosts_;
    std::vector<std::string>& asked_;
};

TEST(NcclPeers, that_have_ended_end_a_transfer_long_before_the_time_out) {
    run_on_threads(1, [](Communicator& world) {
        std::vector<std::string> asked;
        Rank rank(world, {.stalls = true});
        const auto communicator =
            make_nccl_communicator(rank.nccl, std::make_shared<FakeSideStream>(rank.gpu),
                                   std::make_shared<LosesAPeer>(world.duplicate(), asked), impatient());
        std::vector<float> values(8);
        const auto failure_of = [&](auto&& call) {
            try {
                call();
            } catch (const PeerError& error) {
                return std::string(error.what());
            }
            return std::string("no error");
        };
        Work work = communicator->all_reduce(view_of(std::span(values)), ReduceOp::sum);
        EXPECT_EQ(failure_of([&] { work.wait(); }), "rank 1 on node8 has ended");
        EXPECT_EQ(asked, (std::vector<std::string>{"all_reduce of 8 f32, 1 s"}));
        EXPECT_EQ(rank.nccl->calls().back(), "abort");
        EXPECT_EQ(failure_of([&] { communicator->broadcast(view_of(std::span(values)), 0); }),
                  "rank 0 on node7 cannot reach its peers: all_reduce of 8 f32 lost a peer before");
    });
}

TEST(NcclTimeout, of_a_call_that_stays_in_progress) {
    const std::string message =
        failure_of_all_reduce({.answers = {{"all_reduce", NcclResult::in_progress}}}, impatient());
    EXPECT_EQ(message.substr(0, message.find(" s for")),
              "exit 5: all_reduce of 8 f32: rank 0 on node7 waited 21.0");
    EXPECT_NE(message.find("distributed.timeout"), std::string::npos);
}

TEST(NcclTimeout, of_the_start) {
    const std::string message =
        failure_of_all_reduce({.answers = {{"init_rank", NcclResult::in_progress}}}, impatient());
    EXPECT_EQ(message.substr(0, message.find(" waited")), "exit 5: ncclCommInitRank: rank 0 on node7");
}

// As of a job that was suspended for an hour between any two looks, as its peers were.
TEST(NcclTimeout, does_not_count_time_in_which_the_rank_did_not_run) {
    const NcclSettings suspended{
        .timeout = 20, .host = "node7", .now = [time = 0.0]() mutable { return time += 3600; }};
    EXPECT_EQ(failure_of_all_reduce({.polls = 5}, suspended), "no error");
    const std::string message =
        failure_of_all_reduce({.answers = {{"all_reduce", NcclResult::in_progress}}}, suspended);
    EXPECT_EQ(message.substr(0, message.find(" s for")),
              "exit 5: all_reduce of 8 f32: rank 0 on node7 waited 21.0");
}

TEST(NcclStart, that_fails_on_one_rank_fails_with_its_words_on_all) {
    std::mutex mutex;
    std::vector<std::string> messages;
    run_on_threads(3, [&](Communicator& world) {
        NcclScript script;
        if (world.rank() == 1) script.answers["init_rank"] = NcclResult::invalid_usage;
        Rank rank(world, script);
        try {
            rank.communicator(world);
        } catch (const AgreedError& error) {
            const std::lock_guard lock(mutex);
            messages.emplace_back(error.what());
            EXPECT_EQ(error.code(), ExitCode::usage);
        }
        EXPECT_EQ(rank.nccl->calls().back(), "abort");
    });
    ASSERT_EQ(messages.size(), 3U);
    for (const std::string& message : messages)
        EXPECT_EQ(message.substr(0, message.find(" failed")),
                  "rank 1 on " + host_name() + ": ncclCommInitRank on rank 1 (node1)");
}

TEST(NcclStart, that_fails_on_one_rank_ends_the_others_waiting_for_it_without_a_time_out) {
    for (const int culprit : {0, 2}) {
        run_on_threads(3, [&](Communicator& world) {
            const bool fails = world.rank() == culprit;
            Rank rank(
                world,
                {.answers = {{"init_rank", fails ? NcclResult::system_error : NcclResult::in_progress}}});
            NcclSettings settings = settings_of(world.rank());
            settings.now = [] { return 0.0; };  // no time passes
            try {
                rank.communicator(world, settings);
                ADD_FAILURE() << "it started";
            } catch (const AgreedError& error) {
                const std::string name = std::to_string(culprit);
                const std::string expected = "rank " + name + " on " + host_name() +
                                             ": ncclCommInitRank on rank " + name + " (node" + name +
                                             ") failed";
                EXPECT_EQ(std::string(error.what()).substr(0, expected.size()), expected);
                EXPECT_EQ(error.code(), ExitCode::peer);
            }
            EXPECT_EQ(rank.nccl->calls().back(), "abort");
        });
    }
}

TEST(NcclStart, without_an_id_of_rank_0_starts_nobody) {
    std::mutex mutex;
    int failed = 0;
    run_on_threads(2, [&](Communicator& world) {
        Rank rank(world, {.answers = {{"unique_id", NcclResult::system_error}}});
        EXPECT_THROW(rank.communicator(world), AgreedError);
        EXPECT_EQ(std::ranges::count(rank.nccl->calls(), "init_rank"), 0);
        const std::lock_guard lock(mutex);
        ++failed;
    });
    EXPECT_EQ(failed, 2);
}

TEST(NcclOrder, transfers_wait_for_the_computation_before_and_the_one_behind_for_them) {
    run_on_threads(2, [](Communicator& world) {
        Rank rank(world, {});
        const auto communicator = rank.communicator(world);
        std::vector<float> values(4);
        bool backward_may_end = false, optimizer_ran = false;
        FakeStream& compute = rank.gpu->compute();
        compute.issue([&] {
            if (backward_may_end) std::ranges::fill(values, 2.0F);
            return backward_may_end;
        });
        Work work = communicator->all_reduce(view_of(std::span(values)), ReduceOp::sum);
        // A kernel of the next layer: not what the transfer waits for.
        compute.issue([] { return true; });
        for (int poll = 0; poll < 5; ++poll) EXPECT_FALSE(work.test());
        EXPECT_EQ(values, std::vector<float>(4, 0.0F)) << "backward has not written them";
        backward_may_end = true;
        work.wait();
        compute.issue([&] {
            EXPECT_EQ(values, std::vector<float>(4, 4.0F));
            return optimizer_ran = true;
        });
        rank.gpu->finish();
        EXPECT_TRUE(optimizer_ran);
    });
}

TEST(NcclWindows, are_made_of_memory_that_nccl_gives_and_end_before_it_and_the_communicator) {
    run_on_threads(2, [](Communicator& world) {
        Rank rank(world, {.polls = 2});
        {
            const auto communicator = rank.communicator(world);
            const Buffer memory = communicator->allocate(4096);
            ASSERT_EQ(memory.size(), 4096u);
            std::fill_n(reinterpret_cast<float*>(memory.data()), 1024, 1.0F);
            const TensorView values = memory.view(0, DType::f32, {1024});
            communicator->all_reduce(values, ReduceOp::sum).wait();
            EXPECT_EQ(values.as<float>()[1023], 2.0F);
        }
        EXPECT_EQ(rank.nccl->violations(), std::vector<std::string>());
        const std::vector<std::string>& calls = rank.nccl->calls();
        const auto from = std::ranges::find(calls, "init_rank");
        EXPECT_EQ(std::vector<std::string>(from, calls.end()),
                  (std::vector<std::string>{"init_rank", "allocate", "register_window", "all_reduce",
                                            "deregister_window", "release", "finalize", "destroy"}));
    });
}

/// What rank 0 is told when `allocate` gives nothing on two ranks, rank 1 with this script.
std::string notice_of(const NcclScript& script) {
    std::string text;
    run_on_threads(2, [&](Communicator& world) {
        Rank rank(world, world.rank() == 1 ? script : NcclScript{.windows = script.windows});
        NcclSettings settings = settings_of(world.rank());
        settings.notice = [&](const std::string& why) {
            EXPECT_EQ(world.rank(), 0);
            text += why;
        };
        EXPECT_EQ(rank.communicator(world, settings)->allocate(64).size(), 0u);
        EXPECT_EQ(std::ranges::count(rank.nccl->calls(), "release"),
                  std::ranges::count(rank.nccl->calls(), "allocate") -
                      (script.answers.contains("allocate") && world.rank() == 1 ? 1 : 0));
    });
    return text;
}

TEST(NcclWindows, that_one_rank_has_no_memory_for_are_done_without_on_all) {
    EXPECT_EQ(
        notice_of({.answers = {{"allocate", NcclResult::invalid_usage}}}),
        "gradients lie in ordinary device memory: NCCL 0.0.0 gave no memory for windows (ncclMemAlloc)");
}

TEST(NcclWindows, that_this_nccl_does_not_know_are_done_without) {
    EXPECT_EQ(notice_of({.windows = false}),
              "gradients lie in ordinary device memory: NCCL 0.0.0 made no window of it on these GPUs");
}

TEST(NcclLibrary, opens_and_makes_ids_without_a_gpu_or_says_what_is_missing) {
    try {
        const auto nccl = open_nccl();
        NcclUniqueId id{};
        EXPECT_EQ(nccl->unique_id(id), NcclResult::success);
        EXPECT_NE(id, NcclUniqueId{});
        EXPECT_EQ(nccl->version().substr(0, 2), "2.");
        EXPECT_EQ(nccl->error_text(NcclResult::invalid_usage, nullptr).substr(0, 13), "invalid usage");
    } catch (const RunError& error) {
        EXPECT_NE(std::string(error.what()).find("distributed.backend: mpi"), std::string::npos)
            << error.what();
    }
}

TEST(NcclEnd, after_an_error_does_not_wait_for_the_peers) {
    run_on_threads(1, [](Communicator& world) {
        Rank rank(world, {});
        try {
            const auto communicator = rank.communicator(world);
            throw RunError("elsewhere");
        } catch (const RunError&) {
        }
        EXPECT_EQ(rank.nccl->calls(), (std::vector<std::string>{"unique_id", "init_rank", "abort"}));
    });
}

}  // namespace
}  // namespace tutti::test
