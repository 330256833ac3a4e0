#include "tutti/input/target_summary.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tutti {
namespace {

class SomeTargets final : public Dataset {
  public:
    explicit SomeTargets(std::vector<float> targets, std::int64_t count = 2) : targets_(std::move(targets)) {
        info_.samples = static_cast<std::int64_t>(targets_.size()) / count;
        info_.targets = count;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "two targets"; }
    void read(std::span<const std::int64_t>, std::span<std::byte>, std::span<std::int64_t>) const override {}
    std::span<const float> targets() const override { return targets_; }

  private:
    DatasetInfo info_;
    std::vector<float> targets_;
};

TEST(TargetSummary, EachTargetHasItsOwn) {
    const auto all = summarize_targets(SomeTargets({2, -1, 4, -1, 4, -1, 4, -1, 5, -1, 5, -1, 7, -1, 9, -1}));
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].minimum, 2);
    EXPECT_EQ(all[0].mean, 5);
    EXPECT_EQ(all[0].maximum, 9);
    EXPECT_EQ(all[0].standard_deviation, 2);
    EXPECT_EQ(all[1].minimum, -1);
    EXPECT_EQ(all[1].mean, -1);
    EXPECT_EQ(all[1].maximum, -1);
    EXPECT_EQ(all[1].standard_deviation, 0);
}

TEST(TargetSummary, FarFromZeroNothingIsLost) {
    const auto all = summarize_targets(SomeTargets({16777214, 3e38F, 16777216, 3e38F}));
    EXPECT_EQ(all[0].mean, 16777215);
    EXPECT_EQ(all[0].standard_deviation, 1);
    EXPECT_EQ(all[1].mean, static_cast<double>(3e38F));
}

TEST(TargetSummary, WithoutSamplesThereAreNoNumbers) {
    const auto all = summarize_targets(SomeTargets({}));
    ASSERT_EQ(all.size(), 2U);
    EXPECT_TRUE(std::isnan(all[0].minimum) && std::isnan(all[1].standard_deviation));
}

TEST(SegmentSummary, SegmentsAndSecondsAreCounted) {
    // Three samples of four seconds: two segments of 1.5 s and 1 s, one of 3 s that begins before, none.
    const SegmentSummary summary = summarize_segments(SomeTargets(
        {0.5, 1, -1, -1, 0, 1, -1, -1, 0, 3, 1, 2, 2, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, 8));
    EXPECT_EQ(summary.samples, 2);
    EXPECT_EQ(summary.segments, 3);
    EXPECT_EQ(summary.shortest, 1);
    EXPECT_EQ(summary.longest, 3);
    EXPECT_DOUBLE_EQ(summary.mean, 5.5 / 3);
    EXPECT_EQ(summary.inside, 5);
    EXPECT_EQ(summary.others, 7);
    const SegmentSummary none = summarize_segments(SomeTargets({-1, -1}));
    EXPECT_EQ(none.segments, 0);
    EXPECT_EQ(none.mean, 0);
    EXPECT_EQ(summarize_segments(SomeTargets({})).others, 0);
}

}  // namespace
}  // namespace tutti
