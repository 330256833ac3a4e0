#include "input/csv_fields.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

TEST(CsvFields, NumbersAreWholeFieldsButForBlanks) {
    EXPECT_EQ(number_in<double>(" \t-2.5e3 "), -2500);
    EXPECT_EQ(number_in<double>("+3"), 3);
    EXPECT_EQ(number_in<double>("Inf"), INFINITY);
    EXPECT_TRUE(std::isnan(number_in<double>("NaN").value()));
    for (const char* text : {"", " ", "1 2", "1,5", "abc", "1e999"})
        EXPECT_EQ(number_in<double>(text), std::nullopt) << text;
    EXPECT_EQ(number_in<std::int64_t>("1.0"), std::nullopt);
    EXPECT_EQ(trimmed(" a b\t"), "a b");
}

TEST(CsvFields, NumbersNearerToZeroThanDoubleHoldsAreZero) {
    EXPECT_EQ(number_in<double>("1e-400"), 0);
    EXPECT_EQ(number_in<double>(" -1e-400 "), 0);
    EXPECT_EQ(number_in<double>("4e-320"), 4e-320);
    EXPECT_EQ(number_in<double>("-1e400"), std::nullopt);
    EXPECT_EQ(number_in<double>("1e-400x"), std::nullopt);
    EXPECT_EQ(number_in<std::int64_t>("99999999999999999999"), std::nullopt);
}

TEST(CsvFields, AColumnThatIsNotThereIsNamedWithTheNearestOne) {
    const std::vector<std::string> names{"width", "length"};
    const auto refusal = [&](const std::string& name) -> std::string {
        try {
            find_column({"in.csv", names, ','}, name, "--keep");
        } catch (const UsageError& error) {
            return error.what();
        }
        return "found";
    };
    EXPECT_EQ(find_column({"in.csv", names, ','}, "length", "--keep"), 1U);
    EXPECT_EQ(refusal("lenght"), "--keep: in.csv has no column lenght; did you mean length?");
    EXPECT_EQ(refusal("y"),
              "--keep: in.csv has no column y; its first line names 2 columns, the first is width");
}

}  // namespace
}  // namespace tutti
