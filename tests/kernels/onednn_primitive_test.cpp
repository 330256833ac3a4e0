#include "onednn_primitive.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(OnednnContext, HasTheMemoryOfEveryCallerBeforeTheFirstCall) {
    OnednnContext context;
    context.ready_callers(3, 5000, 300);
    for (int number = 0; number < 3; ++number) {
        EXPECT_TRUE(context.of(number).workspace.holds(5000));
        EXPECT_TRUE(context.of(number).shared.holds(300));
        EXPECT_EQ(context.of(number).caller, number);
    }
    const std::byte* const before = context.of(1).workspace.reserve(5000);
    context.ready_callers(3, 4000);
    EXPECT_EQ(context.of(1).workspace.reserve(4000), before);
}

}  // namespace
}  // namespace tutti
