#include "tutti/base/spread.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Median, OfOddAndEvenNumbers) {
    EXPECT_EQ(median({3, 1, 2}), 2);
    EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
    EXPECT_EQ(median({5}), 5);
}

TEST(Spread, OfOddAndEvenNumbersAndOfNothing) {
    const Spread odd = spread_of({5, 1, 3});
    EXPECT_EQ(odd.min, 1);
    EXPECT_EQ(odd.median, 3);
    EXPECT_EQ(odd.max, 5);
    EXPECT_EQ(spread_of({4, 1, 2, 8}).median, 3);
    EXPECT_EQ(spread_of({}).max, 0);
}

}  // namespace
}  // namespace tutti
