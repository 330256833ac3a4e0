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

}  // namespace
}  // namespace tutti
