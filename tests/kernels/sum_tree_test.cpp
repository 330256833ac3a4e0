#include "sum_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "parallel.hpp"

namespace tutti {
namespace {

/// The additions made when parts finish in this order, written out: "((0+1)+2)".
std::string written_out(const std::vector<std::int64_t>& order) {
    std::vector<std::string> sums(order.size());
    for (std::size_t part = 0; part < sums.size(); ++part) sums[part] = std::to_string(part);
    SumTree tree(static_cast<std::int64_t>(order.size()));
    const auto add = [&](std::int64_t to, std::int64_t from) {
        std::string& sum = sums[static_cast<std::size_t>(to)];
        sum = "(" + sum + "+" + sums[static_cast<std::size_t>(from)] + ")";
    };
    for (const std::int64_t part : order) tree.finish(part, add);
    if (tree.second_half() > 0) add(0, tree.second_half());
    return sums[0];
}

std::vector<std::int64_t> ascending(std::size_t parts) {
    std::vector<std::int64_t> order(parts);
    std::iota(order.begin(), order.end(), 0);
    return order;
}

TEST(SumTreeTest, adds_neighbours_and_then_their_sums) {
    EXPECT_EQ(written_out(ascending(1)), "0");
    EXPECT_EQ(written_out(ascending(2)), "(0+1)");
    EXPECT_EQ(written_out(ascending(3)), "((0+1)+2)");
    EXPECT_EQ(written_out(ascending(5)), "(((0+1)+(2+3))+4)");
    EXPECT_EQ(written_out(ascending(6)), "(((0+1)+(2+3))+(4+5))");
    EXPECT_EQ(written_out(ascending(8)), "(((0+1)+(2+3))+((4+5)+(6+7)))");
}

TEST(SumTreeTest, the_order_of_finishing_does_not_change_the_additions) {
    std::mt19937 random(7);
    for (std::size_t parts = 1; parts <= 64; ++parts) {
        std::vector<std::int64_t> order = ascending(parts);
        const std::string expected = written_out(order);
        for (int times = 0; times < 5; ++times) {
            std::shuffle(order.begin(), order.end(), random);
            EXPECT_EQ(written_out(order), expected) << parts << " parts";
        }
    }
}

TEST(SumTreeTest, threads_add_every_part_once) {
    constexpr std::int64_t parts = 32, count = 1000;
    for (const int threads : {1, 2, 3, 5}) {
        std::vector<double> sums(parts * count);
        const auto at = [&](std::int64_t part) { return sums.begin() + part * count; };
        SumTree tree(parts);
        const auto add = [&](std::int64_t to, std::int64_t from) {
            std::transform(at(to), at(to) + count, at(from), at(to), std::plus<>());
        };
        for_parts(parts, threads, [&](int, std::int64_t part) {
            std::fill_n(at(part), count, static_cast<double>(part + 1));
            tree.finish(part, add);
        });
        add(0, tree.second_half());
        EXPECT_TRUE(std::all_of(at(0), at(0) + count, [](double sum) {
            return sum == parts * (parts + 1) / 2;
        })) << threads;
    }
}

}  // namespace
}  // namespace tutti
