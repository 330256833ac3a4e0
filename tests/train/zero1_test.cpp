// The optimizer's state divided among ranks, which are threads here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "train_step.hpp"
#include "training_fixture.hpp"

namespace tutti {
namespace {

/// What a run leaves: the model, and what the optimizer of each rank holds.
struct ShardedOutcome {
    std::vector<NamedTensor> model, optimizer;
    std::map<int, std::size_t> state_bytes;
    std::size_t arena_bytes = 0;
    double gradient_norm = 0;
};

ShardedOutcome train_sharded(int ranks, const std::vector<std::string>& settings, int updates) {
    ShardedOutcome outcome;
    std::mutex mutex;
    test::run_training(ranks, settings, [&](const TrainingJob& job) {
        TrainStep training(job);
        training.initial_weights();
        UpdateReport report;
        for (int update = 0; update < updates; ++update) {
            if (!training.epoch_has_more()) {
                training.progress.epoch += update > 0 ? 1 : 0;
                training.progress.position = 0;
                training.start_epoch();
            }
            report = training.update();
        }
        std::vector<NamedTensor> optimizer;
        std::size_t bytes = 0;
        for (const Optimizer::State& state : training.optimizer->state()) {
            bytes += state.arena.bytes();
            const TensorView whole = training.shards ? training.shards->gather(state) : state.arena;
            for (NamedTensor& tensor : training.graph.save_arena(whole, state.name + "/"))
                optimizer.push_back(std::move(tensor));
        }
        const std::lock_guard lock(mutex);
        outcome.state_bytes[training.rank] = bytes;
        outcome.arena_bytes = training.graph.parameter_arena().bytes();
        auto model = training.graph.save();
        if (!outcome.model.empty()) {
            for (std::size_t t = 0; t < model.size(); ++t)
                EXPECT_EQ(model[t].bytes, outcome.model[t].bytes) << model[t].name << " differs among ranks";
        }
        outcome.model = std::move(model);
        outcome.optimizer = std::move(optimizer);
        outcome.gradient_norm = report.gradient_norm;
    });
    return outcome;
}

void expect_same_bits(const std::vector<NamedTensor>& one, const std::vector<NamedTensor>& other) {
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t t = 0; t < one.size(); ++t) {
        EXPECT_EQ(one[t].name, other[t].name);
        EXPECT_EQ(one[t].bytes, other[t].bytes) << one[t].name;
    }
}

const std::vector<std::vector<std::string>> recipes{
    {"optim.name=sgd", "optim.lr=0.1"},
    {"optim.name=sgd", "optim.lr=0.1", "optim.momentum=0.9", "optim.weight_decay=0.01",
     "optim.decay_1d=false", "distributed.bucket_policy=per_layer"},
    {"optim.name=adam", "optim.lr=0.01", "train.accumulate=2", "distributed.bucket_policy=single"},
    {"optim.name=adamw", "optim.lr=0.01", "optim.weight_decay=0.1", "optim.layer_decay=0.5",
     "distributed.first_bucket_mb=0.0001", "distributed.bucket_mb=0.0001", "train.ema=0.9"},
    {"optim.name=adadelta", "optim.lr=1"},
};

class Zero1Ranks : public ::testing::TestWithParam<int> {};

TEST_P(Zero1Ranks, TrainsToTheBitsOfDdpWithAPartOfTheState) {
    for (const std::vector<std::string>& recipe : recipes) {
        SCOPED_TRACE(recipe[0]);
        std::vector<std::string> sharded = recipe;
        sharded.emplace_back("distributed.strategy=zero1");
        const ShardedOutcome ddp = train_sharded(GetParam(), recipe, 9),
                             zero1 = train_sharded(GetParam(), sharded, 9);
        expect_same_bits(ddp.model, zero1.model);
        expect_same_bits(ddp.optimizer, zero1.optimizer);
        std::size_t total = 0;
        for (const auto& [rank, bytes] : zero1.state_bytes) {
            EXPECT_EQ(bytes, zero1.state_bytes.at(0)) << "rank " << rank;
            total += bytes;
        }
        const std::size_t states = ddp.state_bytes.at(0) / ddp.arena_bytes;
        EXPECT_EQ(total, states * zero1.arena_bytes) << "together they hold it once";
    }
}

TEST_P(Zero1Ranks, ClipsByTheNormOfAllRanks) {
    const std::vector<std::string> recipe{"optim.lr=0.1", "optim.clip_norm=0.01", "train.precision=fp64"};
    std::vector<std::string> sharded = recipe;
    sharded.emplace_back("distributed.strategy=zero1");
    const ShardedOutcome ddp = train_sharded(GetParam(), recipe, 5),
                         zero1 = train_sharded(GetParam(), sharded, 5);
    EXPECT_GT(ddp.gradient_norm, 0.02) << "clipping has something to do";
    // The squares are added in another order.
    EXPECT_NEAR(zero1.gradient_norm, ddp.gradient_norm, 1e-13 * ddp.gradient_norm);
    for (std::size_t t = 0; t < ddp.model.size(); ++t) {
        const auto count = static_cast<std::size_t>(ddp.model[t].shape.count());
        const auto* const one = reinterpret_cast<const double*>(ddp.model[t].bytes.data());
        const auto* const other = reinterpret_cast<const double*>(zero1.model[t].bytes.data());
        for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(one[i], other[i], 1e-14) << ddp.model[t].name;
    }
}

TEST_P(Zero1Ranks, TheNormIsThatOfAllPartsAndSeesANumberThatIsNotFiniteInAnyOfThem) {
    test::run_training(GetParam(), {"distributed.strategy=zero1"}, [&](const TrainingJob& job) {
        TrainStep training(job);
        if (!training.shards) return;  // one rank
        const auto gradients = training.graph.gradient_arena().span<float>();
        const std::vector<ArenaRange>& owned = training.shards->plan().owned;
        // What others own holds no defined values.
        std::ranges::fill(gradients, NAN);
        for (const ArenaRange& range : owned)
            std::ranges::fill(slice(training.graph.gradient_arena(), range).span<float>(), 2.0F);
        EXPECT_EQ(training.shards->sum_of_squares(job.control), 4.0 * static_cast<double>(gradients.size()));
        training.shards->scale_gradients(0.5);
        EXPECT_EQ(training.shards->sum_of_squares(job.control), static_cast<double>(gradients.size()));
        for (int rank = 0; rank < training.world; ++rank) {
            float& value = gradients[static_cast<std::size_t>(owned.back().offset)];
            const float before = value;
            if (rank == training.rank) value = INFINITY;
            EXPECT_EQ(training.shards->sum_of_squares(job.control), INFINITY) << "in the part of " << rank;
            value = before;
        }
    });
}

TEST_P(Zero1Ranks, StateGoesBackToWhereItCameFrom) {
    test::run_training(
        GetParam(), {"optim.name=adam", "distributed.strategy=zero1"}, [&](const TrainingJob& job) {
            TrainStep training(job);
            training.initial_weights();
            training.start_epoch();
            for (int update = 0; update < 3; ++update) training.update();
            if (!training.shards) return;  // one rank
            for (const Optimizer::State& state : training.optimizer->state()) {
                const auto values = state.arena.span<float>();
                const std::vector<float> before(values.begin(), values.end());
                training.shards->gather(state);
                if (training.rank != 0)  // what the others have there does not matter
                    training.job.device.ops(DType::f32).fill(training.graph.gradient_arena(), 7);
                std::ranges::fill(values, -1.0F);
                training.shards->scatter(state);
                EXPECT_EQ(std::vector<float>(values.begin(), values.end()), before);
            }
        });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Zero1Ranks, ::testing::Values(1, 2, 3, 4),
                         [](const auto& row) { return std::to_string(row.param) + "_ranks"; });

}  // namespace
}  // namespace tutti
