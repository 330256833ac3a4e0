#include "tutti/train/evaluation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "training_fixture.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/precision.hpp"

namespace tutti {
namespace {

/// As `of`, but sample `bad` cannot be read.
class BadSample final : public Dataset {
  public:
    BadSample(const Dataset& of, std::int64_t bad) : of_(of), bad_(bad) {}
    const DatasetInfo& info() const override { return of_.info(); }
    std::string name() const override { return of_.name(); }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        if (std::ranges::find(indices, bad_) != indices.end())
            throw DataError("pattern: sample " + std::to_string(bad_) + " is bad", "pack it again");
        of_.read(indices, samples, labels);
    }

  private:
    const Dataset& of_;
    std::int64_t bad_;
};

/// An mlp evaluated on `ranks` ranks, in deterministic mode by so many lanes each; lanes = 0: not in that
/// mode.
EvaluationResult evaluated(int ranks, int lanes, const Dataset& data) {
    const std::vector<std::string> settings{"model.hidden=[6, 5]"};
    const Config config = parse_config("", "test.yaml", settings);
    constexpr std::int64_t batch_size = 3;
    struct Lane {
        Lane(std::unique_ptr<Device> of, Graph&& with, const DatasetInfo& info, const DataConfig& data_config)
            : device(std::move(of)),
              graph(std::move(with)),
              loss(make_softmax_cross_entropy(*device, graph.compute())),
              stage(*device, info, data_config, graph.compute(), batch_size) {}
        std::unique_ptr<Device> device;
        Graph graph;
        std::unique_ptr<Loss> loss;
        BatchStage stage;
    };
    std::vector<EvaluationResult> results(static_cast<std::size_t>(ranks));
    test::run_on_threads(ranks, [&](Communicator& world) {
        const Arithmetic arithmetic = arithmetic_of(config.train.precision);
        const auto spec = [&] {
            return build_model(config.model, {data.info().sample_shape, data.info().classes});
        };
        auto device = make_cpu_device(std::max(lanes, 1));
        Device& first = *device;
        Graph graph(spec(), first, arithmetic, batch_size);
        graph.initialize(0);
        std::vector<std::unique_ptr<Lane>> made;
        made.push_back(std::make_unique<Lane>(std::move(device), std::move(graph), data.info(), config.data));
        while (static_cast<int>(made.size()) < lanes) {
            auto of_lane = first.make_lane();
            Graph again(spec(), *of_lane, arithmetic, made.front()->graph);
            made.push_back(
                std::make_unique<Lane>(std::move(of_lane), std::move(again), data.info(), config.data));
        }
        std::vector<EvaluationLane> given;
        for (const auto& lane : made) given.push_back({lane->graph, *lane->loss, lane->stage});
        Loader loader(data, batch_size, 0, 2, &first);
        results[static_cast<std::size_t>(world.rank())] = evaluate({.lanes = std::move(given),
                                                                    .dataset = data,
                                                                    .loader = loader,
                                                                    .communicator = world,
                                                                    .batch_size = batch_size,
                                                                    .topk = 2,
                                                                    .confusion = true,
                                                                    .virtual_shards = lanes > 0 ? 4 : 0,
                                                                    .device = lanes > 0 ? &first : nullptr});
    });
    for (const EvaluationResult& result : results) EXPECT_EQ(result.loss, results.front().loss);
    return results.front();
}

void expect_equal_counts(const EvaluationResult& one, const EvaluationResult& other) {
    EXPECT_EQ(one.weight, other.weight);
    EXPECT_EQ(one.correct, other.correct);
    EXPECT_EQ(one.in_topk, other.in_topk);
    EXPECT_EQ(one.of_label, other.of_label);
    EXPECT_EQ(one.hit_of_label, other.hit_of_label);
    EXPECT_EQ(one.confusion, other.confusion);
}

TEST(Evaluation, HasTheSameBitsOnAnyNumberOfLanesAndRanks) {
    const test::PatternDataset data(203);
    const EvaluationResult one = evaluated(1, 1, data);
    EXPECT_EQ(one.weight, 203);
    EXPECT_EQ(one.of_label, (std::vector<std::int64_t>{51, 51, 51, 50}));
    for (const int ranks : {1, 2, 4})
        for (const int lanes : {1, 2, 3}) {
            SCOPED_TRACE(testing::Message() << ranks << " ranks, " << lanes << " lanes");
            const EvaluationResult other = evaluated(ranks, lanes, data);
            EXPECT_EQ(one.loss, other.loss);
            expect_equal_counts(one, other);
        }
}

TEST(Evaluation, CountsTheSameOutsideOfDeterministicMode) {
    const test::PatternDataset data(203);
    const EvaluationResult expected = evaluated(1, 1, data);
    for (const int ranks : {1, 3}) {
        const EvaluationResult result = evaluated(ranks, 0, data);
        expect_equal_counts(expected, result);
        EXPECT_NEAR(result.mean_loss(), expected.mean_loss(), 1e-6);
    }
}

TEST(Evaluation, EndsOnAllRanksWhereALaneCannotReadASample) {
    const test::PatternDataset data(203);
    const BadSample bad(data, 101);
    for (const int lanes : {0, 1, 3}) {
        try {
            evaluated(2, lanes, bad);
            ADD_FAILURE() << "a bad sample was evaluated, " << lanes << " lanes";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("sample 101 is bad"), std::string::npos) << error.what();
        }
    }
}

EvaluationResult example_result() {
    EvaluationResult result;
    result.loss = 5;
    result.weight = 10;
    result.correct = 6;
    result.topk = 5;
    result.in_topk = 9;
    result.of_label = {4, 0, 5, 1};
    result.hit_of_label = {4, 0, 2, 0};
    return result;
}

TEST(EvaluationResult, HasTheMetricsByName) {
    const EvaluationResult result = example_result();
    EXPECT_EQ(result.metric("val/loss"), 0.5);
    EXPECT_EQ(result.metric("val/accuracy"), 0.6);
    EXPECT_EQ(result.metric("val/top5"), 0.9);
    EXPECT_NEAR(result.metric("val/balanced_accuracy"), (1.0 + 0.4 + 0.0) / 3, 1e-15);
}

TEST(EvaluationResult, BalancedAccuracyLeavesOutClassesWithoutSamples) {
    EvaluationResult result = example_result();
    result.of_label = {4, 0, 0, 0};
    EXPECT_EQ(result.balanced_accuracy(), 1.0);
}

TEST(EvaluationResult, DetectionIsOfClassOneOfTwo) {
    EvaluationResult result;
    result.of_label = {9, 4};
    EXPECT_FALSE(result.detection()) << "not counted";
    result.confusion = {7, 2, 1, 3};
    EXPECT_EQ(result.detection()->probability, 0.75);
    EXPECT_EQ(result.detection()->false_alarm_ratio, 0.4);
    result.of_label = {9, 0};
    result.confusion = {9, 0, 0, 0};
    EXPECT_EQ(result.detection()->probability, 0.0);
    EXPECT_EQ(result.detection()->false_alarm_ratio, 0.0);
    EXPECT_FALSE(example_result().detection()) << "four classes";
}

TEST(EvaluationResult, OfNoSamplesIsZero) {
    const EvaluationResult result;
    for (const char* name : validation_metrics) EXPECT_EQ(result.metric(name), 0.0) << name;
}

TEST(Improves, KnowsTheDirectionOfEachMetric) {
    EXPECT_TRUE(improves("val/loss", 0.4, 0.5));
    EXPECT_FALSE(improves("val/loss", 0.5, 0.5));
    for (const char* name : {"val/accuracy", "val/top5", "val/balanced_accuracy"}) {
        EXPECT_TRUE(improves(name, 0.6, 0.5)) << name;
        EXPECT_FALSE(improves(name, 0.5, 0.5)) << name;
        EXPECT_FALSE(improves(name, 0.4, 0.5)) << name;
    }
}

TEST(Improves, OnlyByMoreThanTheSmallestDifference) {
    EXPECT_FALSE(improves("val/accuracy", 0.75, 0.5, 0.25));
    EXPECT_TRUE(improves("val/accuracy", 0.875, 0.5, 0.25));
    EXPECT_FALSE(improves("val/loss", 0.25, 0.5, 0.25));
    EXPECT_FALSE(improves("val/accuracy", std::nan(""), 0.5));
}

}  // namespace
}  // namespace tutti
