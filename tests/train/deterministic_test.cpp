// Updates in deterministic mode, on ranks that are threads: the same bits on any number of them.
#include <gtest/gtest.h>

#include <mutex>

#include "train_step.hpp"
#include "training_fixture.hpp"

namespace tutti {
namespace {

struct Outcome {
    std::vector<NamedTensor> model;
    std::vector<double> losses, norms;
};

void expect_equal(const Outcome& one, const Outcome& other, const std::string& what) {
    EXPECT_EQ(one.losses, other.losses) << what;
    EXPECT_EQ(one.norms, other.norms) << what;
    ASSERT_EQ(one.model.size(), other.model.size());
    for (std::size_t t = 0; t < one.model.size(); ++t)
        EXPECT_EQ(one.model[t].bytes, other.model[t].bytes) << one.model[t].name << ", " << what;
}

/// Of 50 samples in global batches of 16: the last of an epoch has 2, so most shards have none.
Outcome train(int ranks, std::vector<std::string> settings, const Shape& shape, int accumulate = 1,
              int threads = 1) {
    settings.emplace_back("train.batch_size=" + std::to_string(16 / ranks / accumulate));
    settings.emplace_back("train.accumulate=" + std::to_string(accumulate));
    Outcome outcome;
    std::mutex mutex;
    test::run_training(
        ranks, settings,
        [&](const TrainingJob& job) {
            TrainStep training(job);
            training.initial_weights();
            Outcome mine;
            for (int epoch = 0; epoch < 2; ++epoch) {
                training.progress.epoch = epoch;
                training.progress.position = 0;
                training.start_epoch();
                while (training.epoch_has_more()) {
                    const bool last = training.epoch_ends_with_next();
                    mine.norms.push_back(training.update().gradient_norm);
                    EXPECT_EQ(last, !training.epoch_has_more());
                    mine.losses.push_back(training.sums.loss().loss);
                }
            }
            mine.model = training.graph.save();
            const std::lock_guard lock(mutex);
            if (!outcome.model.empty()) expect_equal(mine, outcome, "among ranks");
            outcome = std::move(mine);
        },
        shape, threads);
    return outcome;
}

void expect_the_same_bits(const std::vector<std::string>& more, const Shape& shape = {8}) {
    std::vector<std::string> settings{"run.deterministic=true", "optim.lr=0.05", "optim.momentum=0.9",
                                      "optim.clip_norm=1"};
    settings.insert(settings.end(), more.begin(), more.end());
    const Outcome one = train(1, settings, shape);
    EXPECT_EQ(one.losses.size(), 8u);
    EXPECT_NE(one.losses.front(), one.losses[4]) << "nothing was learned";
    for (const int ranks : {2, 4, 8})
        expect_equal(train(ranks, settings, shape), one, std::to_string(ranks) + " ranks");
    for (const int ranks : {1, 2, 4, 8})
        for (const int threads : {2, 3})
            expect_equal(train(ranks, settings, shape, 1, threads), one,
                         std::to_string(ranks) + " ranks of " + std::to_string(threads) + " threads");
    expect_equal(train(1, settings, shape, 1, 8), one, "1 rank with a thread for each shard");
    expect_equal(train(2, settings, shape, 2), one, "2 ranks with accumulation");
    expect_equal(train(1, settings, shape, 8), one, "1 rank with accumulation");
}

TEST(DeterministicUpdates, HaveTheSameBitsOnAnyNumberOfRanks) {
    expect_the_same_bits({});
}

TEST(DeterministicUpdates, HaveThemWithDropout) {
    expect_the_same_bits(
        {"model.layers=[{linear: {out: 24}}, relu, {dropout: {p: 0.5}}, {linear: {out: 4}}]"});
}

TEST(DeterministicUpdates, HaveThemWithBatchStatisticsOfEachShard) {
    expect_the_same_bits(
        {"model.layers=[{conv2d: {out: 3, kernel: 2}}, batch_norm2d, relu, flatten, {linear: "
         "{out: 4}}]"},
        {2, 4, 1});
}

TEST(DeterministicUpdates, HaveThemWithRecomputation) {
    expect_the_same_bits(
        {"model.layers=[{conv2d: {out: 3, kernel: 2}}, batch_norm2d, relu, flatten, {linear: "
         "{out: 4}}]",
         "train.recompute=true"},
        {2, 4, 1});
}

TEST(DeterministicUpdates, HaveThemInDouble) {
    expect_the_same_bits({"train.precision=fp64", "optim.name=adamw", "optim.momentum=0"});
}

TEST(DeterministicUpdates, DependOnTheNumberOfShards) {
    const std::vector<std::string> settings{"run.deterministic=true", "optim.lr=0.05"};
    std::vector<std::string> other = settings;
    other.emplace_back("run.virtual_shards=2");
    const Outcome eight = train(1, settings, {8}), two = train(1, other, {8});
    EXPECT_NE(eight.losses, two.losses);
    ASSERT_EQ(eight.losses.size(), two.losses.size());
    for (std::size_t i = 0; i < two.losses.size(); ++i)
        EXPECT_NEAR(eight.losses[i], two.losses[i], 1e-4 * two.losses[i]);
}

TEST(DeterministicUpdates, AreThoseOfOneRankWithoutThemUpToRounding) {
    const std::vector<std::string> settings{"train.precision=fp64", "optim.lr=0.05"};
    std::vector<std::string> sharded = settings;
    sharded.emplace_back("run.deterministic=true");
    const Outcome plain = train(1, settings, {8}), shards = train(2, sharded, {8});
    ASSERT_EQ(plain.losses.size(), shards.losses.size());
    for (std::size_t i = 0; i < plain.losses.size(); ++i)
        EXPECT_NEAR(plain.losses[i], shards.losses[i], 1e-10 * plain.losses[i]);
}

}  // namespace
}  // namespace tutti
