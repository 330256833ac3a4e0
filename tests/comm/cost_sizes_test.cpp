#include "tutti/comm/cost_sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tutti {
namespace {

constexpr double any_time = std::numeric_limits<double>::infinity();

/// A link of 1 Gbit/s behind a token bucket of 40 KB: what fits takes next to nothing, the rest the link's
/// time.
double token_bucket(double bytes) {
    return bytes <= 40000 ? 30e-6 + bytes * 1e-10 : 30e-6 + bytes * 8.4e-9;
}

std::vector<CostSample> measured(double (*seconds)(double), const std::vector<double>& sizes) {
    std::vector<CostSample> samples;
    for (const double bytes : sizes) samples.push_back({bytes, seconds(bytes)});
    return samples;
}

const std::vector<double> by_four{4096, 16384, 65536, 262144, 1048576, 1680000};

TEST(CostSizes, NothingIsAddedWhereTheModelIsRight) {
    const auto line = [](double bytes) { return 20e-6 + bytes * 1e-9; };
    EXPECT_TRUE(sizes_to_add(measured(line, by_four), 4, any_time).empty());
    const auto noisy = [](double bytes) {
        return (20e-6 + bytes * 1e-9) * (1 + 0.05 * std::sin(std::log(bytes) * 7));
    };
    EXPECT_TRUE(sizes_to_add(measured(noisy, by_four), 4, any_time).empty());
    EXPECT_TRUE(sizes_to_add(measured(line, {4096}), 4, any_time).empty());
}

TEST(CostSizes, AJumpBetweenSizesIsFoundWithMoreOfThem) {
    auto samples = measured(token_bucket, by_four);
    // One line through both sides: its time of the largest size is far off.
    EXPECT_GT(std::abs(fit_cost(samples).residuals().back()), 0.3);
    std::size_t added = 0;
    for (int round = 0; round < 4; ++round) {
        const auto sizes = sizes_to_add(samples, 4, any_time);
        EXPECT_LE(sizes.size(), 2u);
        EXPECT_TRUE(std::ranges::is_sorted(sizes));
        for (const std::uint64_t bytes : sizes) {
            EXPECT_EQ(bytes % 4, 0u);
            for (const CostSample& sample : samples) EXPECT_NE(sample.bytes, static_cast<double>(bytes));
            samples.push_back({static_cast<double>(bytes), token_bucket(static_cast<double>(bytes))});
            ++added;
        }
    }
    EXPECT_GT(added, 0u);
    const CostModel model = fit_cost(samples);
    EXPECT_EQ(model.pieces().size(), 2u);
    for (const double bytes : by_four)
        EXPECT_NEAR(model.seconds(bytes) / token_bucket(bytes), 1, 0.05) << bytes;
}

TEST(CostSizes, WhatTakesTooLongIsNotAdded) {
    const auto samples = measured(token_bucket, by_four);
    EXPECT_FALSE(sizes_to_add(samples, 4, any_time).empty());
    EXPECT_TRUE(sizes_to_add(samples, 4, 1e-9).empty());
}

TEST(CostSizes, NeighboursThatAreNearHaveNothingBetweenThem) {
    const auto jump = [](double bytes) { return bytes > 4500 ? 1e-3 : 1e-5; };
    EXPECT_TRUE(sizes_to_add(measured(jump, {4000, 5000}), 4, any_time).empty());
    EXPECT_TRUE(sizes_to_add(measured(jump, {4, 8}), 4096, any_time).empty());  // not a whole element
}

}  // namespace
}  // namespace tutti
