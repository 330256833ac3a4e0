#include "build.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Build, OtherVersionsDiffer) {
    EXPECT_TRUE(differ({"1.0", "abc"}, {"1.1", "abc"}));
    EXPECT_TRUE(differ({"1.0", "unknown"}, {"1.1", "unknown"}));
}

TEST(Build, OtherCommitsDifferWhereBothAreKnown) {
    EXPECT_FALSE(differ({"1.0", "abc"}, {"1.0", "abc"}));
    EXPECT_TRUE(differ({"1.0", "abc"}, {"1.0", "abd"}));
}

TEST(Build, ChangedFilesAndUnknownCommitsProveNothing) {
    EXPECT_FALSE(differ({"1.0", "abc"}, {"1.0", "abd+"}));
    EXPECT_FALSE(differ({"1.0", "abc+"}, {"1.0", "abc"}));
    EXPECT_FALSE(differ({"1.0", "unknown"}, {"1.0", "abc"}));
    EXPECT_FALSE(differ({"1.0", "abc"}, {"1.0", ""}));
}

}  // namespace
}  // namespace tutti
