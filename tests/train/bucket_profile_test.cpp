#include "bucket_profile.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

const std::string key = R"({"model":"abc","world":2})";

BucketProfile example_profile() {
    BucketProfile profile;
    profile.key = key;
    profile.chosen = {"ddp 5 MiB", {1, 3}, 0.25, 0.0125};
    profile.trials = {{"cost_model", {0, 3}, 0.125, 0.1}, profile.chosen};
    profile.cost = CostModel({{.from_bytes = 0, .alpha = 1e-5, .seconds_per_byte = 1e-9}});
    profile.backward_end = 0.1;
    profile.ready = {0.1, 0.2, 0.3, 1.0 / 3};
    return profile;
}

/// The message of the DataError for `text` as the profile of a model with four parameters.
std::string refusal(const std::string& text, const std::string& wanted = key) {
    try {
        bucket_profile_from_json(text, wanted, 4);
    } catch (const DataError& error) {
        return error.what();
    }
    return "accepted";
}

std::string with(std::string text, const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(BucketProfile, SurvivesTheWayThroughItsFile) {
    const test::TempDir folder;
    const std::string path = folder.path() + "/deep/er/profile.json";
    EXPECT_FALSE(read_bucket_profile(path, key, 4));
    write_bucket_profile(path, example_profile());
    const auto read = read_bucket_profile(path, key, 4);
    ASSERT_TRUE(read);
    EXPECT_EQ(to_json(*read), to_json(example_profile()));
    EXPECT_EQ(read->ready, example_profile().ready);
    EXPECT_EQ(read->chosen.ends, example_profile().chosen.ends);
    EXPECT_EQ(read->cost.seconds(1e6), example_profile().cost.seconds(1e6));
}

TEST(BucketProfile, KeepsTheOrderOfBucketsThatGoInPieces) {
    BucketProfile profile = example_profile();
    EXPECT_TRUE(bucket_profile_from_json(to_json(profile), key, 4).chosen.order.empty());
    profile.chosen.order = {0, 1, 0, 0};
    EXPECT_EQ(bucket_profile_from_json(to_json(profile), key, 4).chosen.order, profile.chosen.order);
    EXPECT_TRUE(bucket_profile_from_json(to_json(profile), key, 4).chosen.across_steps());
    profile.chosen.order = {0, 0, 0};
    EXPECT_NE(refusal(to_json(profile)).find("does not hold each of 2 buckets"), std::string::npos);
}

TEST(BucketTrial, SendsAlikeWithTheSameBucketsInTheSameOrderAndPieces) {
    const BucketTrial cut{"cost_model", {1, 3}, 1, 2, {0, 1, 0}}, whole{"cost_model", {1, 3}, 1, 2, {0, 1}},
        other{"cost_model", {2, 3}, 1, 2, {0, 1, 0}}, named{"single", {1, 3}, 3, 4, {0, 1, 0}};
    EXPECT_TRUE(cut.sends_alike(named));
    EXPECT_FALSE(cut.sends_alike(whole));
    EXPECT_FALSE(cut.sends_alike(other));
    EXPECT_TRUE(cut.in_pieces());
    EXPECT_FALSE(whole.in_pieces());
}

TEST(BucketProfile, SaysWhyAFileIsNone) {
    const std::string good = to_json(example_profile());
    EXPECT_EQ(refusal(good), "accepted");
    EXPECT_EQ(refusal("{"), "it is not a JSON object");
    EXPECT_EQ(refusal("[1]"), "it is not a JSON object");
    EXPECT_EQ(refusal("{}"), "it is not a bucket profile");
    EXPECT_EQ(refusal(with(good, "profile\": 3", "profile\": 2")), "it is another version's");
    EXPECT_EQ(refusal(good, R"({"model":"abc","world":3})"), "it is for another training");
    EXPECT_TRUE(refusal(with(good, "\"chosen\"", "\"other\"")).starts_with("it is damaged: "));
    EXPECT_TRUE(refusal(with(good, "0.25", "\"x\"")).starts_with("it is damaged: "));
    EXPECT_EQ(refusal(with(good, "0.1,\n    0.2,", "0.2,")), "it has 3 parameters, the model 4");
    EXPECT_EQ(refusal(with(good, "3\n    ],\n    \"predicted_seconds\": 0.25",
                           "2\n    ],\n    \"predicted_seconds\": 0.25")),
              "a bucket plan covers 3 of 4 parameters");
}

TEST(BucketProfile, AFileThatCannotBeReadOrWrittenIsNamed) {
    const test::TempDir folder;
    const std::string file = folder.path() + "/file";
    std::ofstream(file) << "{";
    EXPECT_THROW(read_bucket_profile(file, key, 4), DataError);
    try {
        write_bucket_profile(file + "/x.json", example_profile());
        FAIL();
    } catch (const RunError& error) {
        EXPECT_NE(std::string(error.what()).find(file + "/x.json"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace tutti
