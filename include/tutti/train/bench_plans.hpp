#pragma once
// Bucket plans to compare: how they are asked for, and which of them are worth a measurement.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/base/bucket_policy.hpp"
#include "tutti/train/bucket_plan.hpp"

namespace tutti {

/// Plans to compare, as the command line names them.
struct PlanRequest {
    std::vector<BucketPolicy> policies;
    std::vector<double> bucket_mb;  ///< MiB; for ddp, which alone has a limit
    double first_bucket_mb = 1;     ///< at most; a smaller size holds for the first bucket, too
};

/// "ddp,single", none that is chosen by steps of its own (auto); "0.25,1,4". Throws UsageError that names
/// `flag` and the wrong item.
std::vector<BucketPolicy> parse_policies(std::string_view text, const std::string& flag);
std::vector<double> parse_bucket_sizes(std::string_view text, const std::string& flag);

/// How a plan was asked for.
struct PlanName {
    BucketPolicy policy = BucketPolicy::ddp;
    double bucket_mb = 0;      ///< 0: the policy has no limit
    std::string schedule{};    ///< "within steps" where the others' is another one; else empty
    std::string text() const;  ///< "ddp 25 MiB", "single", "single within steps"
};

/// A plan that is measured once, under all names that lead to it.
struct BenchPlan {
    std::vector<PlanName> names;
    std::vector<Bucket> buckets;
    std::vector<std::size_t> order{};  ///< of issue; empty: the plan's own
    bool across = false;               ///< buckets stay on the network during the next step's forward
};

/// The different plans of a request, in its order. by_cost: the plan of the policy cost_model, where it is
/// asked for.
std::vector<BenchPlan> distinct_plans(const PlanRequest& request, std::span<const ParameterSlice> parameters,
                                      const std::vector<bool>& layer_ends, std::size_t element_bytes,
                                      const std::vector<Bucket>& by_cost);

/// Of each policy but single (which never pays across steps, and seldom within) the plan that the cost model
/// thinks best: the numbers of these, ascending, none twice. predicted: seconds of a step, by plan. Pure.
std::vector<std::size_t> best_of_policies(std::span<const BenchPlan> plans,
                                          std::span<const double> predicted);

}  // namespace tutti
