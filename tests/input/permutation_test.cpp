#include "input/permutation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tutti/base/error.hpp"
#include "tutti/input/sampler.hpp"

namespace tutti {
namespace {

using List = std::vector<std::int64_t>;

TEST(Permutation, NothingAndOneEntryNeedNoDraw) {
    EXPECT_EQ(permutation_by_32_bits(0, 1), List{});
    EXPECT_EQ(permutation_by_32_bits(1, 1), List{0});
    EXPECT_EQ(permutation_by_64_bits(0, 1), List{});
    EXPECT_EQ(permutation_by_64_bits(1, 1), List{0});
}

TEST(Permutation, SmallNumbersFollowThe32BitAlgorithm) {
    EXPECT_EQ(random_permutation(1000, 9), permutation_by_32_bits(1000, 9));
}

TEST(Permutation, NegativeNumberIsRefused) {
    EXPECT_THROW(random_permutation(-1, 0), UsageError);
}

TEST(Permutation, SeedIsTakenModulo32Bits) {
    EXPECT_EQ(permutation_by_32_bits(50, 7), permutation_by_32_bits(50, 7 + (std::uint64_t{1} << 32)));
    EXPECT_EQ(permutation_by_64_bits(50, 7), permutation_by_64_bits(50, 7 + (std::uint64_t{1} << 32)));
}

TEST(Permutation, LargeAlgorithmDrawsTheHighHalfFirst) {
    // Three steps by hand. i = 0 swaps with itself, but draws, too.
    std::mt19937 engine(5);
    const auto draw = [&engine] {
        const std::uint64_t high = engine();
        return high << 32 | std::uint64_t{engine()};
    };
    draw();
    List expected{0, 1, 2};
    std::swap(expected[1], expected[draw() % 2]);
    std::swap(expected[2], expected[draw() % 3]);
    EXPECT_EQ(permutation_by_64_bits(3, 5), expected);
}

TEST(Permutation, LargeAlgorithmKeepsEveryEntryOnce) {
    List order = permutation_by_64_bits(10007, 3);
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], static_cast<std::int64_t>(i));
}

TEST(Permutation, LargeAlgorithmBeginsAtTorchsThreshold) {
    EXPECT_EQ(large_permutation, 214748364);
}

}  // namespace
}  // namespace tutti
