// Evaluations of a model that tells segments, against what its outputs say one sample after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "../../src/train/host_values.hpp"
#include "evaluation_lanes.hpp"
#include "training_fixture.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/input/random_dataset.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/evaluation.hpp"

namespace tutti {
namespace {

constexpr std::int64_t seconds = 12, feature_count = 4, sequence_count = 23, batch_size = 3;

/// Sequences of which sample n has n mod 5 seconds less than there is room for, and every sixth no segment.
class Sequences final : public Dataset {
  public:
    Sequences() : of_(make_random_sequences({seconds, feature_count}, sequence_count, 3)) {
        targets_.assign(of_->targets().begin(), of_->targets().end());
        for (std::int64_t n = 0; n < sequence_count; ++n)
            for (std::int64_t t = n % 6 == 5 ? 0 : existing(n); t < seconds; ++t)
                for (const std::int64_t k : {0, 1})
                    targets_[static_cast<std::size_t>((n * seconds + t) * 2 + k)] = -1;
    }
    const DatasetInfo& info() const override { return of_->info(); }
    std::string name() const override { return of_->name(); }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> values,
              std::span<std::int64_t> labels) const override {
        of_->read(indices, values, labels);
        auto* const all = reinterpret_cast<float*>(values.data());
        for (std::size_t i = 0; i < indices.size(); ++i)
            std::fill(all + (static_cast<std::int64_t>(i) * seconds + existing(indices[i])) * feature_count,
                      all + static_cast<std::int64_t>(i + 1) * seconds * feature_count, 0.0F);
    }
    std::span<const float> targets() const override { return targets_; }

  private:
    static std::int64_t existing(std::int64_t sample) { return seconds - sample % 5; }

    std::unique_ptr<Dataset> of_;
    std::vector<float> targets_;
};

GraphSpec small_model() {
    TemporalTransformerOptions options;
    options.dim = 8;
    options.depth = 1;
    options.heads = 2;
    return build_temporal_transformer({seconds, feature_count}, options);
}

const SegmentTask task{.loss = {},
                       .selection = {.threshold = 0.2, .shortest = 0, .per_minute = 20, .min_score = 0}};

test::EvaluationLanes lanes_of(int lanes, const Dataset& data) {
    return {lanes,
            small_model,
            DType::f64,
            5,
            batch_size,
            data.info(),
            {},
            [](Device& device, DType compute) {
                return make_segment_loss(device, compute, task.loss); }};
}

/// lanes = 0: not in deterministic mode. weight: of all parameters, where it is given.
EvaluationResult evaluated(int ranks, int lanes, std::optional<double> weight = {}) {
    const Sequences data;
    std::vector<EvaluationResult> results(static_cast<std::size_t>(ranks));
    test::run_on_threads(ranks, [&](Communicator& world) {
        test::EvaluationLanes made = lanes_of(lanes, data);
        if (weight) std::ranges::fill(made.graph().parameter_arena().span<double>(), *weight);
        Loader loader(data, batch_size, 0, 2, &made.device());
        results[static_cast<std::size_t>(world.rank())] =
            evaluate({.lanes = made.all(),
                      .dataset = data,
                      .loader = loader,
                      .communicator = world,
                      .batch_size = batch_size,
                      .metrics = {.segments = task},
                      .virtual_shards = lanes > 0 ? 4 : 0,
                      .device = lanes > 0 ? &made.device() : nullptr});
    });
    for (const EvaluationResult& result : results) EXPECT_EQ(result.atiou(), results.front().atiou());
    return results.front();
}

void expect_equal_segment_counts(const EvaluationResult& one, const EvaluationResult& other) {
    EXPECT_EQ(one.weight, other.weight);
    EXPECT_EQ(one.segments->with_segments, other.segments->with_segments);
    EXPECT_EQ(one.segments->predicted, other.segments->predicted);
    EXPECT_EQ(one.of_label, other.of_label);
    EXPECT_EQ(one.confusion, other.confusion);
}

TEST(SegmentEvaluation, IsWhatTheOutputsOfEachSampleSay) {
    const Sequences data;
    test::EvaluationLanes lanes = lanes_of(1, data);
    SegmentSums expected;
    std::vector<std::int64_t> confusion(4);
    std::vector<float> values(static_cast<std::size_t>(seconds * feature_count));
    for (std::int64_t n = 0; n < sequence_count; ++n) {
        std::int64_t label = 0;
        data.read({&n, 1}, std::as_writable_bytes(std::span(values)), {&label, 1});
        std::ranges::copy(values, lanes.graph().input(1).span<double>().begin());
        const std::vector<double> outputs =
            on_host(lanes.device(), lanes.graph().forward(1, {Phase::evaluate, 0, 0, {}}));
        const std::span<const float> targets =
            data.targets().subspan(static_cast<std::size_t>(n * seconds * 2), seconds * 2);
        for (std::size_t t = 0; t < seconds; ++t)
            if (values[t * feature_count + feature_count - 1] == 1)
                ++confusion[(targets[2 * t] >= 0 ? 2U : 0U) + (outputs[4 * t] > 0 ? 1U : 0U)];
        const auto predicted = decode_segments(outputs, task.selection);
        const auto wanted = segments_in(targets);
        expected.predicted += static_cast<std::int64_t>(predicted.size());
        if (wanted.empty()) continue;
        ++expected.with_segments;
        const auto precisions = segment_precisions(predicted, wanted);
        for (std::size_t i = 0; i < precisions.size(); ++i) expected.precision[i] += precisions[i];
    }
    ASSERT_GT(expected.predicted, sequence_count);
    ASSERT_GT(expected.precision[0], 0);
    ASSERT_LT(expected.with_segments, sequence_count);
    const EvaluationResult result = evaluated(1, 0);
    EXPECT_EQ(result.segments->predicted, expected.predicted);
    EXPECT_EQ(result.segments->with_segments, expected.with_segments);
    EXPECT_EQ(result.confusion, confusion);
    EXPECT_EQ(result.of_label,
              (std::vector<std::int64_t>{confusion[0] + confusion[1], confusion[2] + confusion[3]}));
    for (std::size_t i = 0; i < segment_ious.size(); ++i)
        EXPECT_NEAR(result.segment_precision(i),
                    expected.precision[i] / static_cast<double>(expected.with_segments), 1e-12);
    EXPECT_EQ(result.metric("val/atiou"), result.atiou());
    EXPECT_EQ(result.weight, sequence_count);
}

TEST(SegmentEvaluation, CountsSecondsWhoseOutputsAreNoNumbers) {
    const EvaluationResult result = evaluated(1, 0, std::numeric_limits<double>::quiet_NaN());
    EXPECT_EQ(result.of_label, evaluated(1, 0).of_label);
    EXPECT_EQ(result.confusion, std::vector<std::int64_t>(4));
    EXPECT_EQ(result.not_finite, sequence_count);
}

TEST(SegmentEvaluation, HasTheSameBitsOnAnyNumberOfLanesAndRanks) {
    const EvaluationResult one = evaluated(1, 1);
    for (const int ranks : {1, 2, 4})
        for (const int lanes : {1, 3}) {
            SCOPED_TRACE(testing::Message() << ranks << " ranks, " << lanes << " lanes");
            const EvaluationResult other = evaluated(ranks, lanes);
            EXPECT_EQ(one.loss, other.loss);
            EXPECT_EQ(one.atiou(), other.atiou());
            expect_equal_segment_counts(one, other);
        }
    const EvaluationResult three = evaluated(3, 0);
    expect_equal_segment_counts(one, three);
    EXPECT_NEAR(one.atiou(), three.atiou(), 1e-12);
}

}  // namespace
}  // namespace tutti
