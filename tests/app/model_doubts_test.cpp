#include "model_doubts.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(DoubtOfModel, IsOfABoundThatWasBeatenAndOfAPredictionThatIsOff) {
    EXPECT_EQ(doubt_of_model(10, 11, 10.5), "");
    EXPECT_EQ(doubt_of_model(10, 10, 11), "") << "medians may lie some percent below it";
    EXPECT_NE(doubt_of_model(10, 10, 12).find("faster than that"), std::string::npos);
    EXPECT_NE(doubt_of_model(10, 12, 9).find("+20.0 % off"), std::string::npos);
    EXPECT_NE(doubt_of_model(10, 7, 9).find("-30.0 % off"), std::string::npos);
}

}  // namespace
}  // namespace tutti
