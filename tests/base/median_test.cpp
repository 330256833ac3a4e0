#include "tutti/base/median.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Median, OfOddAndEvenNumbers) {
    EXPECT_EQ(median({3, 1, 2}), 2);
    EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
    EXPECT_EQ(median({5}), 5);
}

}  // namespace
}  // namespace tutti
