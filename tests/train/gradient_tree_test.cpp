#include "tutti/train/gradient_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

/// Values whose sums depend on the order.
double leaf(std::int64_t shard, std::size_t parameter) {
    return 1.0 / (3.0 + static_cast<double>(shard * shard)) + 1e-3 * static_cast<double>(parameter);
}

double expected_sum(std::int64_t leaves, std::size_t parameter) {
    std::vector<double> values;
    for (std::int64_t shard = 0; shard < leaves; ++shard) values.push_back(leaf(shard, parameter));
    return sum_of_neighbours(values);
}

std::vector<Parameter> parameters_of_sizes(const std::vector<std::int64_t>& sizes) {
    std::vector<Parameter> parameters;
    std::int64_t offset = 0;
    for (const std::int64_t size : sizes) {
        Parameter one;
        one.offset = offset;
        one.count = size;
        parameters.push_back(one);
        offset += 8;
    }
    return parameters;
}

TEST(GradientTree, HasTheBitsOfTheTreeForAnyNumberOfThreadsAndBeginsAnew) {
    const auto device = make_cpu_device(1);
    const std::vector<Parameter> parameters = parameters_of_sizes({3, 8, 1});
    for (const std::int64_t leaves : {1, 2, 4, 16})
        for (const int threads : {1, 2, 3, 5}) {
            const Buffer memory = device->allocate(24 * sizeof(double), "result");
            const TensorView result = memory.view(0, DType::f64, {24});
            GradientTree tree(*device, result, parameters, leaves, threads);
            for (int round = 0; round < 3; ++round) {
                tree.begin();
                std::mutex turn;
                std::int64_t next = 0;
                const auto work = [&] {
                    const auto own = make_cpu_device(1);
                    while (true) {
                        std::unique_lock lock(turn);
                        if (next == leaves) return;
                        const TensorView arena = tree.next_arena().value();
                        const std::int64_t mine = next++;
                        lock.unlock();
                        for (std::size_t p = 0; p < parameters.size(); ++p) {
                            const auto values =
                                arena.span<double>().subspan(static_cast<std::size_t>(parameters[p].offset),
                                                             static_cast<std::size_t>(parameters[p].count));
                            std::ranges::fill(values, leaf(mine, p));
                            tree.take(mine, p, own->ops(DType::f64));
                        }
                    }
                };
                std::vector<std::jthread> workers;
                for (int t = 1; t < threads; ++t) workers.emplace_back(work);
                work();
                workers.clear();
                for (std::size_t p = 0; p < parameters.size(); ++p)
                    for (std::int64_t i = 0; i < parameters[p].count; ++i)
                        ASSERT_EQ(result.as<double>()[parameters[p].offset + i], expected_sum(leaves, p))
                            << leaves << " leaves, " << threads << " threads, round " << round;
            }
        }
}

TEST(GradientTree, OfWholeArenasHasTheSameBits) {
    const auto device = make_cpu_device(1);
    const std::vector<Parameter> parameters = parameters_of_sizes({3, 8, 1});
    for (const std::int64_t leaves : {1, 2, 4, 16}) {
        const Buffer memory = device->allocate(24 * sizeof(double), "result");
        const TensorView result = memory.view(0, DType::f64, {24});
        GradientTree tree(*device, result, parameters, leaves, 1);
        for (int round = 0; round < 3; ++round) {
            tree.begin();
            for (std::int64_t mine = 0; mine < leaves; ++mine) {
                const TensorView arena = tree.next_arena().value();
                for (std::size_t p = 0; p < parameters.size(); ++p)
                    std::fill_n(arena.as<double>() + parameters[p].offset, parameters[p].count,
                                leaf(mine, p));
                tree.take(mine, device->ops(DType::f64));
            }
            for (std::size_t p = 0; p < parameters.size(); ++p)
                for (std::int64_t i = 0; i < parameters[p].count; ++i)
                    ASSERT_EQ(result.as<double>()[parameters[p].offset + i], expected_sum(leaves, p))
                        << leaves << " leaves, round " << round;
            // What gradient norms find between parameters.
            EXPECT_EQ(result.as<double>()[3], 0);
        }
    }
}

TEST(GradientTree, WithoutParametersNobodyWaits) {
    const auto device = make_cpu_device(1);
    const std::int64_t leaves = 8;
    // As the graph's arena is then: of no bytes, whose memory may be null.
    const std::vector<Parameter> none;
    GradientTree tree(*device, {nullptr, DType::f64, {0}}, none, leaves, 1);
    tree.begin();
    for (std::int64_t i = 0; i < leaves; ++i) {
        const std::optional<TensorView> arena = tree.next_arena();
        ASSERT_TRUE(arena);
        EXPECT_EQ(arena->count(), 0);
        tree.take(i, device->ops(DType::f64));
    }
    tree.begin();
    tree.stop();
    EXPECT_FALSE(tree.next_arena()) << "stopped";
}

TEST(GradientTree, StatesItsArenas) {
    EXPECT_EQ(GradientTree::more_arenas(1, 4), 0);
    EXPECT_EQ(GradientTree::more_arenas(2, 1), 1);
    EXPECT_EQ(GradientTree::more_arenas(16, 1), 4);
    EXPECT_EQ(GradientTree::more_arenas(16, 2), 5);
    EXPECT_EQ(GradientTree::more_arenas(8, 8), 7);
}

TEST(GradientTree, LetsThoseWhoWaitGoWhenSomebodyGivesUp) {
    const auto device = make_cpu_device(1);
    const std::vector<Parameter> parameters = parameters_of_sizes({3});
    const Buffer memory = device->allocate(8 * sizeof(double), "result");
    GradientTree tree(*device, memory.view(0, DType::f64, {8}), parameters, 4, 1);
    tree.begin();
    for (int leaf = 0; leaf < 3; ++leaf) EXPECT_TRUE(tree.next_arena());
    // All arenas are in use, and nobody finishes a leaf.
    std::jthread waiting([&] { EXPECT_FALSE(tree.next_arena()); });
    tree.stop();
    waiting.join();
    tree.begin();
    EXPECT_TRUE(tree.next_arena());
}

}  // namespace
}  // namespace tutti
