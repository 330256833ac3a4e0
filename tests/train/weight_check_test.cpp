// Ranks as threads, one of which gets a wrong bit.
#include "weight_check.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "train_step.hpp"
#include "training_fixture.hpp"
#include "tutti/base/host_name.hpp"

namespace tutti {
namespace {

using Numbers = std::vector<std::uint64_t>;

TEST(WeightDifference, compares_with_the_majority) {
    const WeightDifference found =
        find_difference({9, 5, 5, 5}, {{1, 2, 9}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}});
    EXPECT_TRUE(found.majority);
    EXPECT_EQ(found.reference, 1);
    ASSERT_EQ(found.ranks.size(), 1u);
    EXPECT_EQ(found.ranks[0].rank, 0);
    EXPECT_EQ(found.ranks[0].tensor, 2u);
}

TEST(WeightDifference, compares_with_rank_0_where_there_is_no_majority) {
    const WeightDifference two = find_difference({5, 9}, {{1, 2}, {3, 2}});
    EXPECT_FALSE(two.majority);
    EXPECT_EQ(two.reference, 0);
    ASSERT_EQ(two.ranks.size(), 1u);
    EXPECT_EQ(two.ranks[0].rank, 1);
    EXPECT_EQ(two.ranks[0].tensor, 0u);

    const WeightDifference halves = find_difference({5, 9, 5, 8}, {{1}, {2}, {1}, {3}});
    EXPECT_FALSE(halves.majority);
    ASSERT_EQ(halves.ranks.size(), 2u);
    EXPECT_EQ(halves.ranks[1].rank, 3);
}

TEST(WeightDifference, says_where_a_second_look_finds_nothing) {
    const WeightDifference found = find_difference({5, 9}, {{1, 2}, {1, 2}});
    ASSERT_EQ(found.ranks.size(), 1u);
    EXPECT_EQ(found.ranks[0].tensor, 2u);
}

/// What each rank says when after two updates a bit of a parameter or of a buffer of one rank is flipped.
std::vector<std::string> said(int ranks, int wrong_rank, const std::string& wrong_parameter,
                              const std::vector<std::string>& settings = {}) {
    std::vector<std::string> messages(static_cast<std::size_t>(ranks));
    std::mutex mutex;
    const bool image = wrong_parameter.empty();
    test::run_training(
        ranks, settings,
        [&](const TrainingJob& job) {
            TrainStep training(job);
            training.initial_weights();
            training.start_epoch();
            WeightCheck check(training.graph, job.device, job.control);
            for (int update = 0; update < 2; ++update) {
                training.update();
                training.complete();
                check.verify(training.progress.step);
            }
            if (training.rank == wrong_rank) {
                std::byte* wrong = training.graph.buffer_arena().data;
                for (const Parameter& parameter : training.graph.parameters())
                    if (parameter.name == wrong_parameter)
                        wrong = training.graph.parameter_arena().data +
                                4 * static_cast<std::size_t>(parameter.offset + parameter.count - 1);
                *wrong ^= std::byte{1};
            }
            std::string message;
            try {
                check.verify(17);
            } catch (const AgreedError& error) {
                EXPECT_EQ(error.code(), ExitCode::failed);
                message = error.what();
            }
            const std::lock_guard lock(mutex);
            messages[static_cast<std::size_t>(training.rank)] = message;
        },
        image ? Shape{2, 2, 2} : Shape{8});
    return messages;
}

TEST(WeightCheck, names_step_rank_host_and_tensor_on_every_rank) {
    for (int ranks = 2; ranks <= 4; ++ranks)
        for (const int wrong : {0, ranks - 1}) {
            const auto messages = said(ranks, wrong, "fc2.weight");
            for (const std::string& message : messages) EXPECT_EQ(message, messages.front());
            const int named = ranks == 2 ? 1 : wrong;
            const auto has = [&](const std::string& text) {
                EXPECT_NE(messages.front().find(text), std::string::npos)
                    << text << " is not in: " << messages.front();
            };
            has("step 17: the ranks do not hold the same weights");
            has("rank " + std::to_string(named) + " on " + host_name() +
                " (first in fc2.weight) differs from ");
            has(ranks == 2 ? "from rank 0 on " + host_name() + ";"
                           : "from the " + std::to_string(ranks - 1) + " other ranks");
            has("they were the same at step 2");
            has("run.resume");
        }
}

TEST(WeightCheck, sees_running_statistics) {
    const std::vector<std::string> settings{"model.name=null",
                                            "model.layers=[{conv2d: {out: 3, kernel: 1}}, {batch_norm2d: "
                                            "{}}, relu, flatten, {linear: {out: 4}}]"};
    const auto messages = said(2, 1, "", settings);
    EXPECT_NE(messages[0].find("running_mean"), std::string::npos) << messages[0];
}

TEST(WeightCheck, finds_the_parameters_of_zero1_the_same) {
    for (const std::string& message :
         said(3, 2, "fc1.bias", {"distributed.strategy=zero1", "optim.name=adam"}))
        EXPECT_NE(message.find("(first in fc1.bias)"), std::string::npos) << message;
}

TEST(WeightCheck, does_nothing_on_one_rank) {
    EXPECT_EQ(said(1, 0, "fc2.weight"), std::vector<std::string>{""});
}

}  // namespace
}  // namespace tutti
