#include "tutti/model/memory_plan.hpp"

#include <gtest/gtest.h>

#include <random>

namespace tutti {
namespace {

bool overlaps_in_time(const Lifetime& a, const Lifetime& b) {
    return a.first <= b.last && b.first <= a.last;
}

void expect_valid(const std::vector<Lifetime>& buffers, const MemoryPlan& plan, std::size_t alignment) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        EXPECT_EQ(plan.offsets[i] % alignment, 0u);
        EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.bytes);
        for (std::size_t j = 0; j < i; ++j) {
            if (!overlaps_in_time(buffers[i], buffers[j])) continue;
            EXPECT_TRUE(plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                        plan.offsets[j] + buffers[j].bytes <= plan.offsets[i])
                << "buffers " << i << " and " << j;
        }
    }
}

TEST(MemoryPlan, NothingNeedsNothing) {
    EXPECT_EQ(plan_memory({}, 64).bytes, 0u);
}

TEST(MemoryPlan, BuffersAliveTogetherDoNotOverlap) {
    const std::vector<Lifetime> buffers = {{100, 0, 2}, {50, 1, 3}, {70, 2, 2}};
    const MemoryPlan plan = plan_memory(buffers, 64);
    expect_valid(buffers, plan, 64);
    EXPECT_EQ(plan.bytes, 128u + 64u + 128u);
}

TEST(MemoryPlan, MemoryIsUsedAgain) {
    const std::vector<Lifetime> buffers = {{128, 0, 1}, {128, 2, 3}, {128, 4, 5}};
    EXPECT_EQ(plan_memory(buffers, 64).bytes, 128u);
}

TEST(MemoryPlan, LastReadAndFirstWriteAtTheSameTimeAreKeptApart) {
    const std::vector<Lifetime> buffers = {{64, 0, 1}, {64, 1, 2}};
    EXPECT_EQ(plan_memory(buffers, 64).bytes, 128u);
}

TEST(MemoryPlan, FillsAHoleBetweenTwoBuffers) {
    const std::vector<Lifetime> buffers = {{256, 0, 9}, {128, 0, 1}, {192, 0, 9}, {64, 2, 3}};
    const MemoryPlan plan = plan_memory(buffers, 64);
    expect_valid(buffers, plan, 64);
    EXPECT_EQ(plan.bytes, 256u + 128u + 192u);
}

TEST(MemoryPlan, RandomLifetimesAreValidAndAtLeastThePeak) {
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        std::vector<Lifetime> buffers;
        const std::size_t count = 1 + random() % 40;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t first = random() % 30;
            buffers.push_back({random() % 1000, first, first + random() % 10});
        }
        const MemoryPlan plan = plan_memory(buffers, 64);
        expect_valid(buffers, plan, 64);
        std::size_t peak = 0;
        for (std::size_t time = 0; time < 40; ++time) {
            std::size_t alive = 0;
            for (const Lifetime& buffer : buffers)
                if (buffer.first <= time && time <= buffer.last) alive += (buffer.bytes + 63) / 64 * 64;
            peak = std::max(peak, alive);
        }
        EXPECT_GE(plan.bytes, peak);
        EXPECT_LE(plan.bytes, 2 * peak) << "the greedy plan should stay near the peak";
    }
}

}  // namespace
}  // namespace tutti
