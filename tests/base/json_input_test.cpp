#include "tutti/base/json_input.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

TEST(JsonDepth, CountsListsAndObjectsThatAreNotInTexts) {
    EXPECT_EQ(json_depth(""), 0U);
    EXPECT_EQ(json_depth("7"), 0U);
    EXPECT_EQ(json_depth("[]"), 1U);
    EXPECT_EQ(json_depth(R"([1, {"a": []}, [[]], {}])"), 3U);
    EXPECT_EQ(json_depth(R"(["[[[[", "\"[[", "\\"])"), 1U);
    EXPECT_EQ(json_depth("]]]["), 1U) << "no JSON, but that is another's to say";
    EXPECT_EQ(json_depth(std::string(100'000, '[')), 100'000U);
}

TEST(ParseJson, RefusesWhatIsTooDeepForTheStack) {
    using nlohmann::json;
    const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    EXPECT_TRUE(parse_json<json>(nested(deepest_json)).is_array());
    EXPECT_TRUE(json_or_discarded<json>(nested(deepest_json)).is_array());
    for (const std::size_t depth : {deepest_json + 1, std::size_t{200'000}}) {
        EXPECT_THROW(parse_json<json>(nested(depth)), DataError);
        EXPECT_TRUE(json_or_discarded<json>(nested(depth)).is_discarded());
    }
    EXPECT_THROW(parse_json<json>("[1"), json::parse_error);
    EXPECT_TRUE(json_or_discarded<json>("[1").is_discarded());
    EXPECT_EQ(json_or_discarded<nlohmann::ordered_json>(R"({"b": 1, "a": 2})").dump(), R"({"b":1,"a":2})");
}

TEST(JsonProblem, IsWithoutTheNameOfTheExceptionAndShort) {
    EXPECT_EQ(json_problem("[json.exception.parse_error.101] parse error at line 1"),
              "parse error at line 1");
    EXPECT_EQ(json_problem("it names no ranks"), "it names no ranks");
    EXPECT_EQ(json_problem("[1, 2] is a list"), "[1, 2] is a list");
    const std::string what = json_problem("[json.exception.x] begin" + std::string(10'000, '-') + "end'");
    EXPECT_LT(what.size(), 250U);
    EXPECT_TRUE(what.starts_with("begin---"));
    EXPECT_TRUE(what.ends_with("---end'"));
}

}  // namespace
}  // namespace tutti
