#include "tutti/input/segment_targets.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(SegmentsIn, AreThoseThatMadeTheTargets) {
    std::vector<float> targets(2 * 100, -1);
    for (std::size_t t = 10; t < 30; ++t) {
        targets[2 * t] = static_cast<float>(t) - 9.3F;
        targets[2 * t + 1] = 30.1F - static_cast<float>(t);
    }
    targets[2 * 60] = 0;
    targets[2 * 60 + 1] = 1;
    const auto wanted = segments_in(targets);
    ASSERT_EQ(wanted.size(), 2u);
    EXPECT_NEAR(wanted[0].begin, 9.3, 1e-5);
    EXPECT_NEAR(wanted[0].end, 30.1, 1e-5);
    EXPECT_EQ(wanted[1], (SegmentTimes{60, 61}));
}

TEST(SegmentsIn, AnInnerOneDoesNotHideTheOuter) {
    // [0, 20] around [0, 10], which has the seconds of both.
    std::vector<float> targets;
    for (int t = 0; t < 30; ++t) {
        const int end = t < 10 ? 10 : 20;
        targets.push_back(t < 20 ? static_cast<float>(t) : -1);
        targets.push_back(t < 20 ? static_cast<float>(end - t) : -1);
    }
    EXPECT_EQ(segments_in(targets), (std::vector<SegmentTimes>{{0, 10}, {0, 20}}));
    EXPECT_TRUE(segments_in({}).empty());
}

}  // namespace
}  // namespace tutti
