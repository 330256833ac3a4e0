#include "tutti/train/bench_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "tutti/base/error.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/base/units.hpp"

namespace tutti {
namespace {

std::vector<std::string> items_of(std::string_view text, const std::string& flag) {
    std::vector<std::string> items;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        items.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    if (std::ranges::find(items, std::string()) != items.end())
        throw UsageError(fmt::format("{} is '{}', which has an empty item", flag, text),
                         "separate items by single commas");
    return items;
}

}  // namespace

std::vector<BucketPolicy> parse_policies(std::string_view text, const std::string& flag) {
    std::vector<std::string> known;
    for (const auto& [name, policy] : bucket_policy_names)
        if (policy != BucketPolicy::automatic) known.push_back(name);
    std::vector<BucketPolicy> policies;
    for (const std::string& item : items_of(text, flag)) {
        if (std::ranges::find(known, item) == known.end()) {
            const std::string near = nearest(item, known);
            throw UsageError(fmt::format("{}: '{}' is not a bucket policy", flag, item),
                             near.empty() ? fmt::format("there are {}", fmt::join(known, ", "))
                                          : "did you mean " + near + "?");
        }
        const BucketPolicy policy =
            std::ranges::find(bucket_policy_names, item, &BucketPolicyName::name)->policy;
        if (std::ranges::find(policies, policy) == policies.end()) policies.push_back(policy);
    }
    return policies;
}

std::vector<double> parse_bucket_sizes(std::string_view text, const std::string& flag) {
    std::vector<double> sizes;
    for (const std::string& item : items_of(text, flag)) {
        double size = 0;
        const char* const begin = item.data() + std::min(item.find_first_not_of(' '), item.size());
        const char* const end = item.data() + item.size();
        const auto [rest, problem] = std::from_chars(begin, end, size);
        if (problem != std::errc() || rest != end || !std::isfinite(size) || size <= 0)
            throw UsageError(fmt::format("{}: '{}' is not a bucket size", flag, item),
                             "give numbers of MiB above 0, for example 0.25,1,25");
        if (std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
    }
    return sizes;
}

std::string PlanName::text() const {
    return (bucket_mb > 0 ? fmt::format("{} {:g} MiB", to_string(policy), bucket_mb) : to_string(policy)) +
           (schedule.empty() ? "" : " " + schedule);
}

std::vector<BenchPlan> distinct_plans(const PlanRequest& request, std::span<const ParameterSlice> parameters,
                                      const std::vector<bool>& layer_ends, std::size_t element_bytes,
                                      const std::vector<Bucket>& by_cost) {
    std::vector<BenchPlan> plans;
    const auto add = [&](const PlanName& name, std::vector<Bucket> buckets) {
        const auto same = std::ranges::find(plans, buckets, &BenchPlan::buckets);
        if (same != plans.end())
            same->names.push_back(name);
        else
            plans.push_back({{name}, std::move(buckets)});
    };
    const auto bytes = [](double mb) { return static_cast<std::size_t>(mb * mebibyte); };
    for (const BucketPolicy policy : request.policies) {
        if (policy == BucketPolicy::cost_model) {
            add({policy, 0}, by_cost);
        } else if (policy == BucketPolicy::ddp) {
            for (const double mb : request.bucket_mb)
                add({policy, mb}, plan_buckets(parameters, layer_ends,
                                               {policy, element_bytes, bytes(mb),
                                                bytes(std::min(request.first_bucket_mb, mb))}));
        } else {
            add({policy, 0}, plan_buckets(parameters, layer_ends, {policy, element_bytes}));
        }
    }
    return plans;
}

std::vector<std::size_t> best_of_policies(std::span<const BenchPlan> plans,
                                          std::span<const double> predicted) {
    std::set<std::size_t> chosen;
    for (const BucketPolicy policy : {BucketPolicy::cost_model, BucketPolicy::per_layer, BucketPolicy::ddp}) {
        std::size_t best = plans.size();
        for (std::size_t p = 0; p < plans.size(); ++p)
            if (std::ranges::find(plans[p].names, policy, &PlanName::policy) != plans[p].names.end() &&
                (best == plans.size() || predicted[p] < predicted[best]))
                best = p;
        if (best < plans.size()) chosen.insert(best);
    }
    return {chosen.begin(), chosen.end()};
}

}  // namespace tutti
