#include "tutti/train/evaluation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluation_lanes.hpp"
#include "training_fixture.hpp"
#include "tutti/base/stop_signal.hpp"
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

/// As a PatternDataset, but with two classes.
class PatternOfTwo final : public Dataset {
  public:
    explicit PatternOfTwo(std::int64_t samples) : of_(samples), info_(of_.info()) { info_.classes = 2; }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return of_.name(); }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        of_.read(indices, samples, labels);
        for (std::int64_t& label : labels) label %= 2;
    }

  private:
    test::PatternDataset of_;
    DatasetInfo info_;
};

/// As `of`, but with two targets in place of a label, some near the outputs of a new model, some farther off
/// than 1.
class PatternTargets final : public Dataset {
  public:
    explicit PatternTargets(std::int64_t samples) : of_(samples), info_(of_.info()) {
        info_.classes = 0;
        info_.labelled = false;
        info_.targets = 2;
        for (std::int64_t i = 0; i < samples; ++i) {
            const auto number = static_cast<double>(i);
            targets_.push_back(static_cast<float>(2.3 * std::sin(1.7 * number)));
            targets_.push_back(static_cast<float>(1.9 * std::cos(0.9 * number) - 0.1));
        }
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return of_.name(); }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        of_.read(indices, samples, labels);
        std::ranges::fill(labels, 0);
    }
    std::span<const float> targets() const override { return targets_; }

  private:
    test::PatternDataset of_;
    DatasetInfo info_;
    std::vector<float> targets_;
};

const std::vector<std::string> evaluated_settings{"model.hidden=[6, 5]"};

/// An mlp evaluated on `ranks` ranks, in deterministic mode by so many lanes each; lanes = 0: not in that
/// mode. more: settings, of which train.precision counts; kind: for data with targets; a signal ends it early
/// where it may.
EvaluationResult evaluated(int ranks, int lanes, const Dataset& data,
                           const std::vector<std::string>& more = {},
                           RegressionLoss kind = RegressionLoss::squared, bool ends_on_signal = false) {
    std::vector<std::string> settings = evaluated_settings;
    settings.insert(settings.end(), more.begin(), more.end());
    const Config config = parse_config("", "test.yaml", settings);
    const bool regression = data.info().targets > 0;
    constexpr std::int64_t batch_size = 3;
    std::vector<EvaluationResult> results(static_cast<std::size_t>(ranks));
    test::run_on_threads(ranks, [&](Communicator& world) {
        const Arithmetic arithmetic = arithmetic_of(config.train.precision);
        const auto spec = [&] {
            return build_model(config.model, {data.info().sample_shape,
                                              regression ? data.info().targets : data.info().classes});
        };
        test::EvaluationLanes made(lanes, spec, arithmetic, 0, batch_size, data.info(), config.data,
                                   [&](Device& device, DType compute) {
                                       return regression ? make_regression_loss(device, compute, kind)
                                                         : make_softmax_cross_entropy(device, compute);
                                   });
        Loader loader(data, batch_size, 0, 2, &made.device());
        results[static_cast<std::size_t>(world.rank())] =
            evaluate({.lanes = made.all(),
                      .dataset = data,
                      .loader = loader,
                      .communicator = world,
                      .batch_size = batch_size,
                      .metrics = {.topk = regression ? 0 : config.train.topk.value_or(2),
                                  .confusion = !regression,
                                  .ranking = true},
                      .ends_on_signal = ends_on_signal,
                      .virtual_shards = lanes > 0 ? 4 : 0,
                      .device = lanes > 0 ? &made.device() : nullptr});
    });
    for (const EvaluationResult& result : results) {
        EXPECT_EQ(result.loss, results.front().loss);
        EXPECT_EQ(result.errors.absolute, results.front().errors.absolute);
        EXPECT_EQ(result.errors.squared, results.front().errors.squared);
        EXPECT_EQ(result.errors.distance, results.front().errors.distance);
    }
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

TEST(Evaluation, CountsALabelAmongTheKGreatestLogitsAsAHit) {
    const test::PatternDataset data(203);
    const auto hits = [&](int k) {
        return evaluated(1, 0, data, {"train.topk=" + std::to_string(k)}).in_topk;
    };
    EXPECT_EQ(hits(1), evaluated(1, 0, data).correct);
    EXPECT_LT(hits(1), hits(2));
    EXPECT_LT(hits(3), 203);
    EXPECT_EQ(hits(4), 203);
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

TEST(Evaluation, RanksTheSamplesOfTwoClassesWithTheSameBitsOnAnyNumberOfLanesAndRanks) {
    const PatternOfTwo data(203);
    const EvaluationResult one = evaluated(1, 1, data);
    ASSERT_TRUE(one.scores);
    EXPECT_EQ(one.scores->thresholds().back().true_positives, 101);
    EXPECT_EQ(one.scores->thresholds().back().false_positives, 102);
    EXPECT_EQ(one.metric("val/roc_auc"), one.scores->roc_auc());
    EXPECT_EQ(one.metric("val/auprc"), one.scores->average_precision());
    for (const int ranks : {1, 2, 4})
        for (const int lanes : {1, 3}) {
            const EvaluationResult other = evaluated(ranks, lanes, data);
            EXPECT_EQ(roc_csv(*one.scores), roc_csv(*other.scores))
                << ranks << " ranks, " << lanes << " lanes";
        }
    const EvaluationResult three = evaluated(3, 0, data);
    EXPECT_NEAR(three.metric("val/roc_auc"), one.metric("val/roc_auc"), 1e-3) << "in another order of sums";
    EXPECT_FALSE(evaluated(1, 1, test::PatternDataset(9)).scores) << "four classes";
    EXPECT_TRUE(std::isnan(EvaluationResult().metric("val/auprc")));
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

TEST(Evaluation, EndsEarlyOnASignalWhereItMay) {
    std::optional<StopSignal> signals(std::in_place);
    const test::PatternDataset data(203);
    const auto run = [&](int lanes, bool may) {
        return evaluated(2, lanes, data, {}, RegressionLoss::squared, may);
    };
    EXPECT_FALSE(run(2, true).stopped) << "there was none";
    std::raise(SIGUSR1);
    const EvaluationResult whole = run(2, false);
    EXPECT_FALSE(whole.stopped);
    EXPECT_EQ(whole.weight, 203);
    for (const int lanes : {0, 1, 3}) {
        const EvaluationResult part = run(lanes, true);
        EXPECT_TRUE(part.stopped) << lanes << " lanes";
        EXPECT_LT(part.weight, 203);
        EXPECT_FALSE(evaluated(2, lanes, PatternOfTwo(203), {}, RegressionLoss::squared, true).scores);
    }
    signals.reset();
    signals.emplace();  // forgets the signal, of which later tests must not hear
}

/// What the model of evaluated() gives in fp64, sample by sample: the differences from the targets.
std::vector<std::array<double, 2>> differences_of(const PatternTargets& data) {
    const Config config = parse_config("", "test.yaml", evaluated_settings);
    const auto device = make_cpu_device(1);
    Graph graph(build_model(config.model, {data.info().sample_shape, 2}), *device, DType::f64, 1);
    graph.initialize(0);
    std::vector<std::array<double, 2>> differences;
    for (std::int64_t i = 0; i < data.info().samples; ++i) {
        std::array<std::byte, 8> pixels{};
        std::int64_t label = 0;
        data.read(std::span(&i, 1), pixels, std::span(&label, 1));
        std::array<double, 8> input{};
        // As the stage has it: bytes of 0 to 255 become f32 numbers of 0 to 1.
        std::ranges::transform(pixels, input.begin(), [](std::byte pixel) {
            return static_cast<double>(static_cast<float>(std::to_integer<int>(pixel)) / 255.0F);
        });
        device->copy_from_host(graph.input(1), input.data());
        std::array<double, 2> outputs{};
        device->copy_to_host(outputs.data(), graph.forward(1, {Phase::evaluate, 0, 0, {}}));
        const auto at = 2 * static_cast<std::size_t>(i);
        differences.push_back({outputs[0] - static_cast<double>(data.targets()[at]),
                               outputs[1] - static_cast<double>(data.targets()[at + 1])});
    }
    return differences;
}

TEST(Evaluation, OfTargetsHasTheErrorsOfTheOutputs) {
    for (const std::int64_t samples : {1, 20, 203}) {
        const PatternTargets data(samples);
        double absolute = 0, squared = 0, distance = 0, huber = 0;
        bool far = false, near = false;
        for (const auto& [x, y] : differences_of(data)) {
            absolute += std::abs(x) + std::abs(y);
            squared += x * x + y * y;
            distance += std::hypot(x, y);
            for (const double d : {x, y}) {
                huber += std::abs(d) < 1 ? d * d / 2 : std::abs(d) - 0.5;
                (std::abs(d) < 1 ? near : far) = true;
            }
        }
        EXPECT_TRUE(samples == 1 || (far && near));
        const auto count = static_cast<double>(samples);
        for (const int ranks : {1, 2, 3})
            for (const int lanes : {0, 1, 3})
                for (const auto& [kind, loss] : {std::pair{RegressionLoss::squared, squared},
                                                 std::pair{RegressionLoss::absolute, absolute},
                                                 std::pair{RegressionLoss::huber, huber}}) {
                    // Virtual shards are dealt to a power of two of ranks.
                    if (lanes > 0 && ranks == 3) continue;
                    SCOPED_TRACE(testing::Message()
                                 << samples << " samples, " << ranks << " ranks, " << lanes << " lanes");
                    const EvaluationResult result =
                        evaluated(ranks, lanes, data, {"train.precision=fp64"}, kind);
                    EXPECT_EQ(result.weight, count);
                    EXPECT_EQ(result.targets, 2);
                    EXPECT_EQ(result.correct, 0);
                    EXPECT_TRUE(result.of_label.empty());
                    EXPECT_NEAR(result.mean_loss(), loss / (2 * count), 1e-12);
                    EXPECT_NEAR(result.mae(), absolute / (2 * count), 1e-12);
                    EXPECT_NEAR(result.rmse(), std::sqrt(squared / (2 * count)), 1e-12);
                    EXPECT_NEAR(result.distance(), distance / count, 1e-12);
                }
    }
}

TEST(Evaluation, OfTargetsHasTheSameBitsOnAnyNumberOfLanesAndRanks) {
    const PatternTargets data(203);
    for (const char* precision : {"train.precision=fp32", "train.precision=fp64"}) {
        const EvaluationResult one = evaluated(1, 1, data, {precision});
        for (const int ranks : {1, 2, 4})
            for (const int lanes : {1, 2, 3}) {
                SCOPED_TRACE(testing::Message()
                             << precision << ", " << ranks << " ranks, " << lanes << " lanes");
                const EvaluationResult other = evaluated(ranks, lanes, data, {precision});
                EXPECT_EQ(one.loss, other.loss);
                EXPECT_EQ(one.weight, other.weight);
                EXPECT_EQ(one.errors.absolute, other.errors.absolute);
                EXPECT_EQ(one.errors.squared, other.errors.squared);
                EXPECT_EQ(one.errors.distance, other.errors.distance);
            }
    }
}

TEST(Evaluation, OfNoTargetsIsZero) {
    const PatternTargets data(0);
    for (const int ranks : {1, 2, 3}) {
        const EvaluationResult result = evaluated(ranks, 0, data);
        EXPECT_EQ(result.weight, 0);
        for (const char* name : {"val/loss", "val/mae", "val/rmse", "val/distance"})
            EXPECT_EQ(result.metric(name), 0.0) << name;
        EXPECT_EQ(score_text(result), "rmse 0.0000, mae 0.0000, distance 0.0000 (0 samples)");
    }
}

}  // namespace
}  // namespace tutti
