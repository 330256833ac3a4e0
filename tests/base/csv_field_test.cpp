#include "tutti/base/csv_field.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(CsvField, IsQuotedWhereItMustBe) {
    EXPECT_EQ(csv_field(""), "");
    EXPECT_EQ(csv_field("a b.png"), "a b.png");
    EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
    EXPECT_EQ(csv_field("the \"dog\""), "\"the \"\"dog\"\"\"");
    EXPECT_EQ(csv_field("a\nb"), "\"a\nb\"");
}

}  // namespace
}  // namespace tutti
