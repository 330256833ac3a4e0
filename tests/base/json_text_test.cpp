#include "tutti/base/json_text.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tutti {
namespace {

TEST(JsonText, WhatIsNoUtf8IsShownAndNotRefused) {
    const nlohmann::ordered_json document{{"files", {"a\xff.h5"}}, {"b", 1}};
    EXPECT_EQ(json_text(document), "{\"files\":[\"a\xef\xbf\xbd.h5\"],\"b\":1}");
    EXPECT_THROW(document.dump(), nlohmann::json::exception);
}

TEST(JsonText, IndentsEachLevel) {
    EXPECT_EQ(json_text(nlohmann::json{{"a", {{"b", 1}}}}, 1), "{\n \"a\": {\n  \"b\": 1\n }\n}");
    EXPECT_EQ(json_text(nlohmann::json{{"a", "ä"}}), "{\"a\":\"ä\"}");
}

TEST(JsonText, RowsHaveBlanksBetweenTheirParts) {
    nlohmann::ordered_json row{{"a", 1.5}, {"b", {1, 2}}, {"c", nullptr}};
    row["d:,"] = "x\\\":,\\";
    EXPECT_EQ(json_row(row), R"({"a": 1.5, "b": [1, 2], "c": null, "d:,": "x\\\":,\\"})");
    EXPECT_EQ(nlohmann::ordered_json::parse(json_row(row)), row);
}

}  // namespace
}  // namespace tutti
