// The step that ended a run, made again on one rank.
#include "tutti/train/failed_step.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "train_step.hpp"
#include "training_fixture.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/failed_step_replay.hpp"

namespace tutti {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(FailedStep, survives_its_way_through_a_file) {
    const FailedStep failed{.step = 8,
                            .epoch = 1,
                            .begin = 16,
                            .end = 30,
                            .samples = 50,
                            .ranks = {{1.25, 8, 0}, {nan, 6, 0}, {-infinity, 0, 0}},
                            .gradient_norm = infinity};
    const FailedStep read = parse_failed_step(to_json(failed), "a.h5");
    EXPECT_EQ(read.step, 8);
    EXPECT_EQ(read.epoch, 1);
    EXPECT_EQ(read.begin, 16);
    EXPECT_EQ(read.end, 30);
    EXPECT_EQ(read.samples, 50);
    EXPECT_EQ(read.gradient_norm, infinity);
    ASSERT_EQ(read.ranks.size(), 3u);
    EXPECT_EQ(read.ranks[0].loss, 1.25);
    EXPECT_EQ(read.ranks[1].weight, 6);
    EXPECT_TRUE(std::isnan(read.ranks[1].loss));
    EXPECT_EQ(read.ranks[2].loss, -infinity);
    EXPECT_THROW(parse_failed_step("{}", "a.h5"), DataError);
    EXPECT_THROW(parse_failed_step("not JSON", "a.h5"), DataError);
}

/// Two linear layers on the first `count` of 50 samples of 8 features and 4 classes, in file order.
class FailedStepReplayed : public testing::Test {
  protected:
    FailedStepReplayed() {
        Graph graph(build_model(config_.model, {data_.info().sample_shape, data_.info().classes}), *device_,
                    DType::f32, 4);
        graph.initialize(1);
        checkpoint_.model = graph.save();
        checkpoint_.config = to_yaml(config_);
    }

    std::span<float> values(const std::string& name) {
        for (NamedTensor& tensor : checkpoint_.model)
            if (tensor.name == name)
                return {reinterpret_cast<float*>(tensor.bytes.data()),
                        static_cast<std::size_t>(tensor.shape.count())};
        ADD_FAILURE() << name;
        return {};
    }
    FailedStepReplay replay(std::int64_t count, std::vector<LossSums> ranks) {
        const FailedStep failed{.step = 1,
                                .epoch = 0,
                                .begin = 0,
                                .end = count,
                                .samples = 50,
                                .ranks = std::move(ranks),
                                .gradient_norm = 0};
        return replay_failed_step(checkpoint_, failed, config_, *device_, data_, "a.h5");
    }

    const std::unique_ptr<Device> device_ = make_cpu_device(1);
    const test::PatternDataset data_{50};
    const Config config_ =
        parse_config("", "test.yaml",
                     std::vector<std::string>{"train.batch_size=4", "data.shuffle=false", "data.workers=0",
                                              "model.name=mlp", "model.hidden=[4]"});
    Checkpoint checkpoint_;
};

TEST_F(FailedStepReplayed, finds_nothing_where_all_is_finite) {
    const FailedStepReplay now = replay(8, {{nan, 4, 0}, {nan, 4, 0}});
    EXPECT_FALSE(now.first);
    EXPECT_TRUE(now.samples.empty());
    ASSERT_EQ(now.ranks.size(), 2u);
    EXPECT_EQ(now.ranks[1].weight, 4);
    EXPECT_GT(now.gradient_norm, 0);
}

TEST_F(FailedStepReplayed, names_the_first_layer_and_the_samples) {
    // The products of the second layer's 4 inputs overflow, where they are not 0.
    std::ranges::fill(values("fc1.weight"), 1.0f);
    std::ranges::fill(values("fc2.weight"), 3e38f);
    const FailedStepReplay now = replay(8, {{nan, 4, 0}, {nan, 4, 0}});
    ASSERT_TRUE(now.first);
    EXPECT_EQ(now.first->where, NonFinite::Where::output);
    EXPECT_EQ(now.first->name, "fc2");
    EXPECT_EQ(now.first->kind, "linear");
    EXPECT_EQ(now.first->rank, 0);
    EXPECT_EQ(now.first->of, 16);
    ASSERT_EQ(now.samples.size(), 8u);
    EXPECT_EQ(now.samples[5].rank, 1);
    EXPECT_EQ(now.samples[5].position, 3);
    EXPECT_EQ(now.samples[5].index, 3);
}

TEST_F(FailedStepReplayed, names_the_first_gradient) {
    // All logits are 0, so the gradient by them is -3/4 for the label, 0, and 1/4 for the others: 4.5e38
    // before the second layer.
    std::ranges::fill(values("fc1.weight"), 0.0f);
    std::ranges::fill(values("fc1.bias"), 1e-39f);
    std::ranges::fill(values("fc2.bias"), 0.0f);
    const std::span<float> second = values("fc2.weight");
    for (std::size_t i = 0; i < second.size(); ++i) second[i] = i < 4 ? -3e38f : 3e38f;
    const FailedStepReplay now = replay(1, {{nan, 1, 0}});
    ASSERT_TRUE(now.first);
    EXPECT_TRUE(std::isfinite(now.ranks[0].loss));
    EXPECT_TRUE(now.samples.empty());
    EXPECT_EQ(now.first->where, NonFinite::Where::gradient);
    EXPECT_TRUE(now.first->name.starts_with("fc1.")) << now.first->name;
    EXPECT_EQ(now.first->rank, 0);
}

TEST_F(FailedStepReplayed, names_weights_that_were_not_finite_before) {
    values("fc1.bias")[2] = static_cast<float>(nan);
    const FailedStepReplay now = replay(4, {{nan, 4, 0}});
    ASSERT_TRUE(now.first);
    EXPECT_EQ(now.first->where, NonFinite::Where::parameter);
    EXPECT_EQ(now.first->name, "fc1.bias");
    EXPECT_EQ(now.first->count, 1);
    EXPECT_EQ(now.first->of, 4);
}

TEST_F(FailedStepReplayed, refuses_other_samples) {
    EXPECT_THROW(replay(51, {{nan, 51, 0}}), DataError);
    const Config other = parse_config(checkpoint_.config, "a.h5", std::vector<std::string>{"run.seed=7"});
    const FailedStep failed{.end = 4, .samples = 50, .ranks = {{nan, 4, 0}}};
    EXPECT_THROW(replay_failed_step(checkpoint_, failed, other, *device_, data_, "a.h5"), UsageError);
    const test::PatternDataset fewer(49);
    EXPECT_THROW(replay_failed_step(checkpoint_, failed, config_, *device_, fewer, "a.h5"), DataError);
}

/// An mlp of two hidden layers with one value in each tensor, or those of `values`. Of label 0 the loss is
/// log 4 and the gradient before the second layer 4e40, more than fp32 holds; of label 1 it is 0.
void make_gradient_overflow(Graph& graph) {
    std::vector<NamedTensor> tensors = graph.save();
    const std::map<std::string, float> all{
        {"fc1.weight", 0.0f}, {"fc1.bias", 1e-37f}, {"fc2.bias", 1.0f}, {"fc3.bias", 0.0f}};
    for (NamedTensor& tensor : tensors) {
        const std::span<float> values(reinterpret_cast<float*>(tensor.bytes.data()),
                                      static_cast<std::size_t>(tensor.shape.count()));
        // Opposite signs of the four units between both cancel each other in the logits, not on the way back.
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto sign = [](std::size_t unit) { return unit % 2 == 0 ? 1e20f : -1e20f; };
            constexpr std::array<float, 4> of_class{-1.0f, 0.0f, 0.5f, 0.5f};
            if (tensor.name == "fc2.weight")
                values[i] = sign(i / 4);
            else if (tensor.name == "fc3.weight")
                values[i] = sign(i % 4) * of_class[i / 4];
            else
                values[i] = all.at(tensor.name);
        }
    }
    graph.load(tensors, "weights");
}

/// Skipped with nan_policy skip; an error where the gradient is clipped.
void expect_no_update_by(const TrainingJob& job) {
    TrainStep training(job);
    training.initial_weights();
    make_gradient_overflow(training.graph);
    const std::vector<NamedTensor> before = training.graph.save();
    training.start_epoch();
    if (job.config.train.nan_policy == NanPolicy::skip) {
        const UpdateReport report = training.update();
        EXPECT_TRUE(report.skipped);
        EXPECT_EQ(report.gradient_norm, infinity);
        EXPECT_EQ(training.progress.skipped, 1);
        EXPECT_EQ(training.progress.step, 0);
    } else {
        try {
            training.update();
            ADD_FAILURE() << "a gradient that is not finite was used";
        } catch (const AgreedError& error) {
            EXPECT_NE(std::string(error.what()).find("the norm of the gradient is inf"), std::string::npos)
                << error.what();
        }
    }
    EXPECT_TRUE(std::isfinite(training.sums.loss().loss)) << "the gradient alone is not";
    const std::vector<NamedTensor> after = training.graph.save();
    for (std::size_t t = 0; t < before.size(); ++t)
        EXPECT_EQ(before[t].bytes, after[t].bytes) << before[t].name;
}

TEST(FailedStep, a_gradient_that_is_not_finite_is_not_used_where_the_loss_is_finite) {
    // Samples 0 and 1, of these labels, are the first batch. No input is 0, lest the product with it is not a
    // number.
    for (const char* policy : {"train.nan_policy=skip", "optim.clip_norm=1"})
        for (const auto& [ranks, way] :
             {std::pair(1, "distributed.strategy=ddp"), std::pair(2, "distributed.strategy=ddp"),
              std::pair(2, "distributed.strategy=zero1"), std::pair(2, "run.deterministic=true")}) {
            SCOPED_TRACE(std::string(policy) + " " + way);
            test::run_training(
                ranks,
                {"model.hidden=[4, 4]", "data.shuffle=false", "data.normalize={mean: [-1], std: [1]}",
                 "run.virtual_shards=2", policy, way, "train.batch_size=" + std::to_string(2 / ranks)},
                expect_no_update_by);
        }
}

TEST(FailedStep, every_rank_keeps_what_all_ranks_had_and_the_weights_are_untouched) {
    for (const char* strategy : {"ddp", "zero1"})
        test::run_training(3, {"optim.lr=1e30", std::string("distributed.strategy=") + strategy},
                           [](const TrainingJob& job) {
                               TrainStep training(job);
                               training.initial_weights();
                               training.start_epoch();
                               training.update();
                               const std::vector<NamedTensor> before = training.graph.save();
                               EXPECT_THROW(training.update(), AgreedError);
                               ASSERT_TRUE(training.failed_step);
                               EXPECT_EQ(training.failed_step->step, 2);
                               EXPECT_EQ(training.failed_step->begin, 12);
                               EXPECT_EQ(training.failed_step->end, 24);
                               ASSERT_EQ(training.failed_step->ranks.size(), 3u);
                               for (const LossSums& rank : training.failed_step->ranks)
                                   EXPECT_EQ(rank.weight, 4);
                               const std::vector<NamedTensor> after = training.graph.save();
                               for (std::size_t t = 0; t < before.size(); ++t)
                                   EXPECT_EQ(before[t].bytes, after[t].bytes);
                           });
}

}  // namespace
}  // namespace tutti
