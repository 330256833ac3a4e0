// NCCL's rules and failures, on a NCCL and GPUs that are not there; ranks are threads.
#include "nccl_communicator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "communicator_contract.hpp"
#include "fake_nccl/fake_nccl.hpp"
#include "fake_nccl/fake_streams.hpp"
#include "thread_communicator.hpp"

namespace tutti::test {
namespace {

double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
NcclSettings settings_of(int rank) {
    return {.timeout = 60, .host = "node" + std::to_string(rank), .now = steady_seconds};
}

/// What a rank has.
struct Rank {
    std::shared_ptr<FakeGpu> gpu = std::make_shared<FakeGpu>();
    std::unique_ptr<Communicator> data;
    std::shared_ptr<FakeNccl> nccl;

    Rank(Communicator& world, NcclScript script)
        : data(world.duplicate()), nccl(std::make_shared<FakeNccl>(*data, std::move(script))) {}

    std::unique_ptr<Communicator> communicator(Communicator& world, const NcclSettings& settings) {
        return make_nccl_communicator(nccl, std::make_shared<FakeSideStream>(gpu), world.duplicate(),
                                      settings);
    }
    std::unique_ptr<Communicator> communicator(Communicator& world) {
        return communicator(world, settings_of(world.rank()));
    }
};

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

/// What one rank throws in `work` with this script.
template <class Work>
std::string failure(const NcclScript& script, const NcclSettings& settings, const Work& work) {
    std::string message = "no error";
    run_on_threads(1, [&](Communicator& world) {
        Rank rank(world, script);
        try {
            const auto communicator = rank.communicator(world, settings);
            work(*communicator, rank);
        } catch (const Error& error) {
            message = "exit " + std::to_string(static_cast<int>(error.code())) + ": " + error.what();
        }
    });
    return message;
}
std::string failure_of_all_reduce(const NcclScript& script, const NcclSettings& settings) {
    return failure(script, settings, [](Communicator& communicator, Rank&) {
        std::vector<float> values(8);
        communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum).wait();
    });
}
std::string failure_of_all_reduce(const NcclScript& script) {
    return failure_of_all_reduce(script, settings_of(0));
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

/// A second passes with every look at it.
NcclSettings impatient() {
    return {.timeout = 20, .host = "node7", .now = [time = 0.0]() mutable { return time += 1; }};
}

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

/// As NCCL waits for graphs that hold its kernels.
struct Recording {
    std::mutex mutex;
    std::condition_variable changed;
    bool gone = false;
    void destroy() {
        const std::lock_guard lock(mutex);
        gone = true;
        changed.notify_all();
    }
    void wait() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return gone; });
    }
};

TEST(NcclAbort, waits_for_recordings_which_are_released_before_it_also_those_with_a_duplicate) {
    const auto recording = std::make_shared<Recording>();
    const auto release = std::make_shared<std::function<void()>>([=] { recording->destroy(); });
    std::vector<std::string> calls;
    const std::string message =
        failure({.stalls = true, .abort_waits = [=] { recording->wait(); }}, impatient(),
                [&](Communicator& communicator, Rank& rank) {
                    const auto other = communicator.duplicate();
                    other->before_abort(release);
                    std::vector<float> values(8);
                    EXPECT_THROW(communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum).wait(),
                                 PeerError);
                    calls = rank.nccl->calls();
                    other->barrier();
                });
    EXPECT_EQ(calls, (std::vector<std::string>{"unique_id", "init_rank", "unique_id", "init_rank",
                                               "all_reduce", "abort", "abort"}));
    EXPECT_EQ(message,
              "exit 5: rank 0 on node7 cannot reach its peers: all_reduce of 8 f32 timed out before");
}

TEST(NcclAbort, comes_where_an_error_leaves_transfers_which_are_not_waited_for) {
    NcclSettings settings = settings_of(0);
    settings.now = [] { return 0.0; };  // no time passes
    std::vector<std::string> calls;
    std::vector<float> values(8);
    const std::string message =
        failure({.stalls = true}, settings, [&](Communicator& communicator, Rank& rank) {
            try {
                const Work work = communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum);
                throw DataError("a sample is broken");
            } catch (const DataError&) {
                calls = rank.nccl->calls();
                throw;
            }
        });
    EXPECT_EQ(calls.back(), "abort");
    EXPECT_EQ(message, "exit 4: a sample is broken");
}

TEST(NcclAbort, comes_where_an_error_leaves_memory_that_a_transfer_is_using) {
    run_on_threads(2, [](Communicator& world) {
        Rank rank(world, {.stalls = true});
        NcclSettings settings = settings_of(world.rank());
        settings.now = [] { return 0.0; };  // no time passes
        const auto communicator = rank.communicator(world, settings);
        Work work;  // lives longer than the memory, as a reducer's may
        const auto fails = [&] {
            const Buffer memory = communicator->allocate(4096);
            work = communicator->all_reduce(memory.view(0, DType::f32, {1024}), ReduceOp::sum);
            throw DataError("a sample is broken");
        };
        EXPECT_THROW(fails(), DataError);
        EXPECT_EQ(std::ranges::count(rank.nccl->calls(), "abort"), 1);
    });
}

/// How a process ends whose NCCL does not abort.
struct End {
    std::string words;
    ExitCode left = ExitCode::done;
    std::vector<std::string> said;  // until then

    NcclSettings settings() {
        NcclSettings result = settings_of(0);
        result.now = [] { return 0.0; };  // no time passes
        result.abort_patience = 0.02;
        result.say = [this](const std::string& message) { said.push_back(message); };
        result.leave = [this](const std::string& message, ExitCode with) {
            EXPECT_EQ(left, ExitCode::done) << "once";
            words = message;
            left = with;
        };
        return result;
    }
};

/// The threads that abort have copies.
void destroy_and_wait(const std::shared_ptr<Recording>& recording) {
    recording->destroy();
    while (recording.use_count() > 1) std::this_thread::yield();
}

TEST(NcclAbort, that_does_not_end_ends_the_process_with_the_code_and_words_of_the_error) {
    const auto recording = std::make_shared<Recording>();
    for (const auto& [result, code] : {std::pair{NcclResult::remote_error, ExitCode::peer},
                                       std::pair{NcclResult::internal_error, ExitCode::failed}}) {
        End end;
        failure_of_all_reduce({.async = result, .stalls = true, .abort_waits = [=] { recording->wait(); }},
                              end.settings());
        EXPECT_EQ(end.left, code);
        EXPECT_EQ(end.words.substr(0, end.words.find(" failed")), "all_reduce of 8 f32 on rank 0 (node0)");
        EXPECT_NE(end.words.find("NCCL did not abort within"), std::string::npos) << end.words;
        ASSERT_EQ(end.said.size(), 1U) << "before the process ends, which something else may end first";
        EXPECT_EQ(end.said[0].substr(0, end.said[0].find(" failed")),
                  "all_reduce of 8 f32 on rank 0 (node0)");
    }
    destroy_and_wait(recording);
}

TEST(NcclAbort, that_does_not_end_has_the_code_and_words_of_an_error_that_leaves_a_transfer) {
    const auto recording = std::make_shared<Recording>();
    for (const bool told : {true, false}) {
        End end;
        failure({.stalls = true, .abort_waits = [=] { recording->wait(); }}, end.settings(),
                [&](Communicator& communicator, Rank&) {
                    std::vector<float> values(8);
                    const auto duplicate = communicator.duplicate();
                    const Work work = communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum);
                    const DataError error("a sample is broken");
                    if (told) {
                        duplicate->will_end_with(error.code(), error.what());
                        duplicate->will_end_with(ExitCode::failed, "what follows from it");
                    }
                    throw error;
                });
        const std::string words =
            told ? "a sample is broken"
                 : "rank 0 on node0 gave up: left by an error; look for the first error of any rank";
        EXPECT_EQ(end.left, told ? ExitCode::data : ExitCode::peer);
        EXPECT_EQ(end.said, std::vector{words + "; waiting for NCCL to abort"});
        EXPECT_EQ(end.words.substr(0, end.words.find("; NCCL did not abort within")), words);
    }
    destroy_and_wait(recording);
}

TEST(NcclAbort, that_comes_after_a_recording_has_the_code_and_words_of_the_call_that_failed) {
    const auto recording = std::make_shared<Recording>();
    End end;
    failure(
        {.answers = {{"all_reduce", NcclResult::invalid_usage}}, .abort_waits = [=] { recording->wait(); }},
        end.settings(), [&](Communicator& communicator, Rank& rank) {
            std::vector<float> values(8);
            const auto duplicate = communicator.duplicate();
            rank.gpu->recording = true;
            EXPECT_FALSE(duplicate->given_up());
            EXPECT_THROW(communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum), UsageError);
            EXPECT_TRUE(duplicate->given_up());
            EXPECT_EQ(end.said, std::vector<std::string>());
            rank.gpu->recording = false;
        });
    EXPECT_EQ(end.left, ExitCode::usage);
    ASSERT_EQ(end.said.size(), 1U);
    EXPECT_EQ(end.said[0].substr(0, end.said[0].find(" failed")), "all_reduce of 8 f32 on rank 0 (node0)");
    destroy_and_wait(recording);
}

TEST(NcclAbort, is_left_until_a_recording_has_ended_in_which_a_call_failed) {
    const auto recording = std::make_shared<Recording>();
    std::vector<std::string> calls;
    bool left = false;
    NcclSettings settings = impatient();
    settings.leave = [&](const std::string&, ExitCode) { left = true; };
    const std::string message = failure(
        {.answers = {{"all_reduce", NcclResult::in_progress}}, .abort_waits = [=] { recording->wait(); }},
        settings, [&](Communicator& communicator, Rank& rank) {
            std::vector<float> values(8);
            rank.gpu->recording = true;
            EXPECT_THROW(communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum), PeerError);
            rank.gpu->recording = false;
            EXPECT_EQ(rank.nccl->calls().back(), "all_reduce");
            recording->destroy();
            communicator.barrier();
        });
    EXPECT_EQ(message.substr(0, 6), "exit 5") << message;
    EXPECT_FALSE(left);
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
        EXPECT_EQ(message.substr(0, message.find(" failed")), "rank 1: ncclCommInitRank on rank 1 (node1)");
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
                const std::string expected =
                    "rank " + name + ": ncclCommInitRank on rank " + name + " (node" + name + ") failed";
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
