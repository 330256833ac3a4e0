// How jobs over NCCL are aborted, and what is said and left where NCCL does not abort.
#include "nccl_abort.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string_view>
#include <thread>

#include "nccl_last_word.hpp"
#include "nccl_rank.hpp"

namespace tutti::test {
namespace {

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

TEST(NcclAbort, comes_with_the_words_of_the_first_error_where_the_gpu_has_failed_since) {
    for (const auto& [result, words] :
         {std::pair{NcclResult::internal_error, "exit 1: all_reduce of 8 f32 on rank 0 (node7) failed"},
          std::pair{NcclResult::in_progress, "exit 5: all_reduce of 8 f32: rank 0 on node7 waited"}}) {
        std::vector<std::string> calls;
        const std::string message = failure(
            {.answers = {{"all_reduce", result}}}, impatient(), [&](Communicator& communicator, Rank& rank) {
                rank.gpu->dead = true;
                std::vector<float> values(8);
                try {
                    communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum);
                } catch (const Error&) {
                    calls = rank.nccl->calls();
                    throw;
                }
            });
        EXPECT_EQ(message.substr(0, std::string_view(words).size()), words);
        EXPECT_EQ(calls.back(), "abort");
    }
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

TEST(NcclAbort, that_does_not_end_has_the_code_and_words_of_an_error_that_is_told_on_its_way_out) {
    const auto recording = std::make_shared<Recording>();
    End end;
    failure({.stalls = true, .abort_waits = [=] { recording->wait(); }}, end.settings(),
            [&](Communicator& communicator, Rank&) {
                std::vector<float> values(8);
                tell_errors(communicator, [&] {
                    const Work work = communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum);
                    throw DataError("a sample is broken");
                });
            });
    EXPECT_EQ(end.left, ExitCode::data);
    EXPECT_EQ(end.words.substr(0, end.words.find(';')), "a sample is broken");
    destroy_and_wait(recording);
}

TEST(NcclAbort, that_does_not_end_has_the_code_and_words_of_an_error_that_leaves_a_constructor_with_memory) {
    struct Model {
        Model(Communicator& communicator, std::function<void()> rest) : memory(communicator.allocate(4096)) {
            rest();
        }
        Buffer memory;
    };
    const auto recording = std::make_shared<Recording>();
    run_on_threads(2, [&](Communicator& world) {
        Rank rank(world, {.abort_waits = [=] { recording->wait(); }});
        End end;
        NcclSettings settings = end.settings();
        {
            const auto communicator = rank.communicator(world, settings);
            EXPECT_THROW(tell_errors(*communicator,
                                     [&] {
                                         together(world, "building the model", [&] {
                                             const Model model(*communicator,
                                                               [] { throw RunError("no memory is left"); });
                                         });
                                     }),
                         AgreedError);
        }
        EXPECT_EQ(end.left, ExitCode::failed);
        EXPECT_EQ(end.words.substr(0, end.words.find(';')), "no memory is left");
    });
    destroy_and_wait(recording);
}

TEST(NcclAbort, that_does_not_end_ends_the_process_also_where_the_error_does_not_come_through) {
    const auto recording = std::make_shared<Recording>();
    End end;
    std::mutex mutex;
    std::condition_variable changed;
    bool left = false;
    NcclSettings settings = end.settings();
    settings.word_patience = 0.02;
    settings.leave = [&, leave = settings.leave](const std::string& message, ExitCode code) {
        const std::lock_guard lock(mutex);
        leave(message, code);
        left = true;
        changed.notify_all();
    };
    failure({.stalls = true, .abort_waits = [=] { recording->wait(); }}, settings,
            [&](Communicator& communicator, Rank&) {
                std::vector<float> values(8);
                tell_errors(communicator, [&] {
                    // As device memory that is freed while NCCL's kernels run.
                    struct Waits {
                        std::function<void()> wait;
                        ~Waits() { wait(); }
                    } waits{[&] {
                        std::unique_lock lock(mutex);
                        changed.wait(lock, [&] { return left; });
                    }};
                    const Work work = communicator.all_reduce(view_of(std::span(values)), ReduceOp::sum);
                    throw DataError("a sample is broken");
                });
            });
    EXPECT_EQ(end.left, ExitCode::peer);
    EXPECT_NE(end.words.find("gave up: left by an error"), std::string::npos) << end.words;
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

TEST(NcclAbortDeathTest, a_process_that_cannot_leave_ends_with_the_code_all_the_same) {
    const auto wait_for_each_other = [] {
        NcclLastWord word;
        std::promise<void> leaving;
        word.is_stuck({ExitCode::peer, "left by an error"}, 0.01, [&](const Failure&) {
            leaving.set_value();
            std::promise<void>().get_future().wait();
        });
        leaving.get_future().wait();
    };
    EXPECT_EXIT(wait_for_each_other(), testing::ExitedWithCode(static_cast<int>(ExitCode::peer)), "");
}

}  // namespace
}  // namespace tutti::test
