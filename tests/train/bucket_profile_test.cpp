#include "bucket_profile.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "support/silent_communicator.hpp"
#include "support/temp_dir.hpp"
#include "training_fixture.hpp"
#include "tutti/base/error.hpp"
#include "tutti/train/step_bench.hpp"

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

std::string key_of(const StepBench& bench, const TrainingJob& job, const Config& config) {
    return bucket_profile_key(job.control, job.gradients, bench.graph(), config, job.device);
}

/// Whose sums go as said.
struct SumsByPath final : test::SilentCommunicator {
    explicit SumsByPath(std::string way) : path(std::move(way)) {}
    std::string backend() const override { return "gloo"; }
    std::string all_reduce_path() const override { return path; }
    std::string path;
};

TEST(BucketProfileKey, TellsApartPathsOfTheSums) {
    test::run_training(1, {"distributed.bucket_policy=auto"}, [](const TrainingJob& job) {
        const StepBench bench(job);
        std::set<std::string> keys, routes;
        for (const char* path : {"gloo", "shared memory and gloo"}) {
            const std::string its =
                bucket_profile_key(job.control, SumsByPath(path), bench.graph(), job.config, job.device);
            keys.insert(its);
            routes.insert(route_of(its));
        }
        EXPECT_EQ(keys.size(), 2U);
        EXPECT_EQ(routes, (std::set<std::string>{"gloo, gloo, ranks by host: 1",
                                                 "gloo, shared memory and gloo, ranks by host: 1"}));
    });
}

TEST(BucketProfileKey, TellsApartWhatDecidesAboutTimesAndPlans) {
    test::run_training(1, {"distributed.bucket_policy=auto"}, [](const TrainingJob& job) {
        const StepBench bench(job);
        std::set<std::string> keys;
        Config config = job.config;
        keys.insert(key_of(bench, job, config));
        for (const Precision precision : {Precision::tf32, Precision::bf16}) {
            config.train.precision = precision;
            keys.insert(key_of(bench, job, config));
        }
        config = job.config;
        config.distributed.first_bucket_mb = 2;
        keys.insert(key_of(bench, job, config));
        EXPECT_EQ(keys.size(), 4u);
        // The cost model's plans have no first bucket of a size of its own.
        config.distributed.bucket_policy = BucketPolicy::cost_model;
        const std::string by_cost = key_of(bench, job, config);
        config.distributed.first_bucket_mb = 1;
        EXPECT_EQ(key_of(bench, job, config), by_cost);
    });
}

TEST(BucketProfileKey, TellsApartNetworksThatTheEnvironmentChooses) {
    test::run_training(1, {"distributed.bucket_policy=auto"}, [](const TrainingJob& job) {
        const StepBench bench(job);
        std::set<std::string> keys{key_of(bench, job, job.config)};
        const auto variables = {"OMPI_MCA_btl_tcp_if_exclude",
                                "UCX_NET_DEVICES",
                                "GLOO_SOCKET_IFNAME",
                                "NCCL_SOCKET_IFNAME",
                                "NCCL_IB_HCA",
                                "NCCL_IB_DISABLE",
                                "NCCL_NET"};
        for (const char* name : variables)
            for (const char* value : {"one0", "two0"}) {
                ASSERT_EQ(setenv(name, value, 1), 0);
                keys.insert(key_of(bench, job, job.config));
                unsetenv(name);
            }
        EXPECT_EQ(keys.size(), 1 + 2 * variables.size());
    });
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
