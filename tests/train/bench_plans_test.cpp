#include "tutti/train/bench_plans.hpp"

#include <gtest/gtest.h>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

TEST(BenchPlanArguments, ListsAreReadInOrderWithoutRepetitions) {
    EXPECT_EQ(parse_policies("single,ddp,single", "--policies"),
              (std::vector{BucketPolicy::single, BucketPolicy::ddp}));
    EXPECT_EQ(parse_bucket_sizes("25,0.25,25", "--bucket-mb"), (std::vector{25.0, 0.25}));
}

TEST(BenchPlanArguments, WrongOnesAreNamed) {
    const auto message = [](const auto& call) -> std::string {
        try {
            call();
        } catch (const UsageError& error) {
            return error.what();
        }
        return "no error";
    };
    const std::string policy = message([] { parse_policies("ddp,sinlge", "--policies"); });
    EXPECT_NE(policy.find("'sinlge'"), std::string::npos) << policy;
    EXPECT_NE(policy.find("did you mean single"), std::string::npos) << policy;
    for (const char* size : {"0", "-1", "x", "1MB", "nan", "inf", "1e999"}) {
        const std::string said = message([&] { parse_bucket_sizes(size, "--bucket-mb"); });
        EXPECT_NE(said.find("--bucket-mb: '" + std::string(size) + "'"), std::string::npos) << said;
    }
    EXPECT_NE(message([] { parse_bucket_sizes("1,,4", "--bucket-mb"); }).find("empty"), std::string::npos);
    EXPECT_NE(message([] { parse_policies("", "--policies"); }).find("empty"), std::string::npos);
}

TEST(DistinctPlans, TheSameCutsAreOnePlanWithAllNames) {
    // Two layers of 1 MiB and one of 64 bytes.
    const std::vector<ParameterSlice> parameters{{0, 262144}, {262144, 262144}, {524288, 16}};
    const std::vector<bool> ends{true, true, true};
    const auto by_cost = plan_buckets(parameters, ends, {BucketPolicy::single});
    const auto plans = distinct_plans(
        {{BucketPolicy::ddp, BucketPolicy::single, BucketPolicy::per_layer, BucketPolicy::cost_model},
         {0.5, 1, 25, 100},
         30},
        parameters, ends, 4, by_cost);
    std::vector<std::string> names;
    for (const BenchPlan& plan : plans) {
        std::string all;
        for (const PlanName& name : plan.names) all += name.text() + ";";
        names.push_back(all + std::to_string(plan.buckets.size()));
    }
    EXPECT_EQ(names, (std::vector<std::string>{"ddp 0.5 MiB;ddp 1 MiB;per_layer;3",
                                               "ddp 25 MiB;ddp 100 MiB;single;cost_model;1"}));
}

TEST(BestOfPolicies, IsTheCostModelsFavouriteOfEachAndNoneTwice) {
    const auto named = [](std::initializer_list<BucketPolicy> policies) {
        BenchPlan plan;
        for (const BucketPolicy policy : policies) plan.names.push_back({policy});
        return plan;
    };
    const std::vector<BenchPlan> plans{named({BucketPolicy::ddp}), named({BucketPolicy::single}),
                                       named({BucketPolicy::ddp, BucketPolicy::per_layer}),
                                       named({BucketPolicy::cost_model}), named({BucketPolicy::ddp})};
    using Numbers = std::vector<std::size_t>;
    EXPECT_EQ(best_of_policies(plans, std::vector<double>{3, 1, 4, 5, 2}), (Numbers{2, 3, 4}));
    EXPECT_EQ(best_of_policies(plans, std::vector<double>{3, 1, 2, 5, 4}), (Numbers{2, 3}));
    EXPECT_EQ(best_of_policies({}, {}), Numbers());
}

TEST(PlanName, SaysItsScheduleWhereItIsNotTheOthers) {
    EXPECT_EQ((PlanName{BucketPolicy::ddp, 0.5}.text()), "ddp 0.5 MiB");
    EXPECT_EQ((PlanName{BucketPolicy::ddp, 0.5, "within steps"}.text()), "ddp 0.5 MiB within steps");
}

}  // namespace
}  // namespace tutti
