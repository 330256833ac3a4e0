#include "tutti/train/segments.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tutti {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Outputs of seconds that exist, all of which are outside, but for those that say a segment.
class Outputs {
  public:
    explicit Outputs(std::size_t seconds, std::size_t padding = 0) : values_(4 * (seconds + padding)) {
        for (std::size_t t = 0; t < seconds + padding; ++t) {
            values_[4 * t] = t < seconds ? -8 : 8;  // padding must not count whatever it says
            values_[4 * t + 1] = values_[4 * t + 2] = 20;
            values_[4 * t + 3] = t < seconds ? 1 : 0;
        }
    }
    Outputs& tell(std::size_t t, double probability, double left, double right) {
        values_[4 * t] = std::log(probability / (1 - probability));
        values_[4 * t + 1] = left;
        values_[4 * t + 2] = right;
        return *this;
    }
    operator std::span<const double>() const { return values_; }

  private:
    std::vector<double> values_;
};

void expect_segment(const ScoredSegment& segment, double begin, double end, double score) {
    EXPECT_DOUBLE_EQ(segment.begin, begin);
    EXPECT_DOUBLE_EQ(segment.end, end);
    EXPECT_NEAR(segment.score, score, 1e-12);
}

TEST(Segments, SecondsAreCountedUpToThePadding) {
    EXPECT_EQ(seconds_of(Outputs(7, 3)), 7);
    EXPECT_EQ(seconds_of(Outputs(0, 3)), 0);
    EXPECT_EQ(seconds_of(Outputs(5)), 5);
    EXPECT_EQ(seconds_of({}), 0);
}

TEST(Segments, AreToldAsManyAsMinutesAllow) {
    EXPECT_EQ(most_segments({.per_minute = 0.3}, 0), 1);
    EXPECT_EQ(most_segments({.per_minute = 0.3}, 200), 1);
    EXPECT_EQ(most_segments({.per_minute = 0.3}, 201), 2);
    EXPECT_EQ(most_segments({.per_minute = 1.1}, 1800), 33);
    EXPECT_EQ(most_segments({.per_minute = 1e9}, 50), 50);
}

TEST(Segments, OneSecondTellsOneWithinTheSequence) {
    const auto predicted = decode_segments(Outputs(100, 20).tell(50, 0.75, 10, 15), {});
    ASSERT_EQ(predicted.size(), 1u);
    expect_segment(predicted[0], 40, 65, 0.75);
    const auto cut =
        decode_segments(Outputs(100, 20).tell(95, 0.75, 30, 70).tell(3, 0.6, 50, 40), {.per_minute = 9});
    ASSERT_EQ(cut.size(), 2u);
    expect_segment(cut[0], 65, 100, 0.75);
    expect_segment(cut[1], 0, 43, 0.6);
}

TEST(Segments, UnlikelyShortAndLongOnesAreNotTold) {
    const SegmentsConfig by{.threshold = 0.5, .shortest = 10, .longest = 90, .per_minute = 9};
    EXPECT_TRUE(decode_segments(Outputs(200), by).empty());
    EXPECT_TRUE(decode_segments(Outputs(200).tell(50, 0.5, 10, 15), by).empty());
    EXPECT_TRUE(decode_segments(Outputs(200).tell(50, 0.9, 4, 5), by).empty());
    EXPECT_TRUE(decode_segments(Outputs(200).tell(100, 0.9, 60, 31), by).empty());
    EXPECT_EQ(decode_segments(Outputs(200).tell(50, 0.9, 5, 5).tell(100, 0.9, 60, 30), by).size(), 2u);
    const SegmentsConfig any{.shortest = 0, .per_minute = 9};
    EXPECT_TRUE(decode_segments(Outputs(200).tell(50, 0.9, 0, 0), any).empty());
    EXPECT_EQ(decode_segments(Outputs(200).tell(50, 0.9, 0, 0.5), any).size(), 1u);
}

TEST(Segments, WhatIsNoNumberTellsNothing) {
    EXPECT_TRUE(
        decode_segments(Outputs(200).tell(50, 0.9, nan, 5).tell(60, 0.9, 5, nan).tell(70, nan, 9, 9), {})
            .empty());
}

TEST(Segments, OverlappingOnesLoseScoreByTheirOverlap) {
    const SegmentsConfig by{.per_minute = 9, .nms_sigma = 0.5};
    // IoU of [40, 60] and [50, 70]: 10 / 30; of [40, 60] and [100, 120]: 0.
    const auto predicted =
        decode_segments(Outputs(200).tell(50, 0.9, 10, 10).tell(60, 0.8, 10, 10).tell(110, 0.7, 10, 10), by);
    ASSERT_EQ(predicted.size(), 3u);
    const double lowered = 0.8 * std::exp(-(1.0 / 9) / 0.5);
    expect_segment(predicted[0], 40, 60, 0.9);
    expect_segment(predicted[1], 100, 120, 0.7);
    expect_segment(predicted[2], 50, 70, lowered);
    EXPECT_EQ(decode_segments(Outputs(200).tell(50, 0.9, 10, 10).tell(60, 0.8, 10, 10),
                              {.per_minute = 9, .min_score = lowered + 1e-9})
                  .size(),
              1u);
    // A second one that is the same: exp(-2) of it are left.
    const auto twice = decode_segments(Outputs(200).tell(50, 0.9, 10, 10).tell(51, 0.9, 11, 9), by);
    ASSERT_EQ(twice.size(), 2u);
    expect_segment(twice[1], 40, 60, 0.9 * std::exp(-2));
}

TEST(Segments, OnlyTheMostProbableSecondsCompete) {
    const auto predicted =
        decode_segments(Outputs(200).tell(50, 0.7, 10, 10).tell(90, 0.9, 10, 10).tell(150, 0.8, 10, 10),
                        {.candidates = 2, .per_minute = 9});
    ASSERT_EQ(predicted.size(), 2u);
    EXPECT_EQ(predicted[0].begin, 80);
    EXPECT_EQ(predicted[1].begin, 140);
}

TEST(Segments, IouIsOfLengths) {
    EXPECT_DOUBLE_EQ(iou({0, 10}, {5, 15}), 1.0 / 3);
    EXPECT_DOUBLE_EQ(iou({0, 10}, {0, 10}), 1);
    EXPECT_EQ(iou({0, 10}, {10, 20}), 0);
    EXPECT_EQ(iou({5, 5}, {5, 5}), 0);
}

TEST(Segments, EachWantedOneIsFoundOnce) {
    const std::vector<SegmentTimes> wanted{{0, 20}, {100, 120}};
    // IoU 1, the same once more, and 16 / 20.
    const std::vector<ScoredSegment> predicted{{{0, 20}}, {{0, 20}}, {{100, 116}}};
    EXPECT_EQ(segment_precisions(predicted, wanted),
              (std::array<double, 5>{2.0 / 3, 2.0 / 3, 2.0 / 3, 2.0 / 3, 1.0 / 3}));
    EXPECT_EQ(segment_precisions({}, wanted), (std::array<double, 5>{}));
    EXPECT_EQ(segment_precisions(predicted, {}), (std::array<double, 5>{}));
}

TEST(Segments, OneThatIsNotRightTakesNoneFromTheNext) {
    const std::vector<SegmentTimes> wanted{{0, 20}};
    const std::vector<ScoredSegment> predicted{{{0, 11}}, {{0, 19}}};
    EXPECT_EQ(segment_precisions(predicted, wanted), (std::array<double, 5>{0.5, 0.5, 0.5, 0.5, 0.5}));
}

TEST(Segments, PredictionsHaveTheSameColumnsForAll) {
    EXPECT_EQ(
        segment_columns({.per_minute = 0.3}, 250),
        (std::vector<std::string>{"segments", "begin_0", "end_0", "score_0", "begin_1", "end_1", "score_1"}));
    const std::vector<double> values = values_of(std::vector<ScoredSegment>{{{1, 12}, 0.5}}, 7);
    EXPECT_EQ(std::vector<double>(values.begin(), values.begin() + 4), (std::vector<double>{1, 1, 12, 0.5}));
    for (std::size_t i = 4; i < 7; ++i) EXPECT_TRUE(std::isnan(values[i]));
}

}  // namespace
}  // namespace tutti
