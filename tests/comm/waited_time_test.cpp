#include "waited_time.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(waited_time, is_what_lies_between_looks) {
    WaitedTime waited(1000, 8);
    EXPECT_DOUBLE_EQ(waited.at(1000.5), 0.5);
    EXPECT_DOUBLE_EQ(waited.at(1001.25), 1.25);
    EXPECT_DOUBLE_EQ(waited.at(1001.25), 1.25);
}

TEST(waited_time, no_suspension_uses_up_a_time_out) {
    for (const double timeout : {0.0, 0.5, 1.0, 2.0, 4.0, 600.0}) {
        WaitedTime waited(1000, timeout);
        const double at_most = timeout > 0 && timeout < 4 ? timeout / 4 : 1;
        EXPECT_DOUBLE_EQ(waited.at(4600), at_most) << timeout;
        EXPECT_DOUBLE_EQ(waited.at(8200), 2 * at_most) << timeout;
    }
}

}  // namespace
}  // namespace tutti
