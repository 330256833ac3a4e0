#pragma once
// The bucket policies' names, wherever they are read or written: distributed.bucket_policy, command lines,
// reports and messages.

#include <algorithm>
#include <array>
#include <string>

#include "tutti/base/config.hpp"

namespace tutti {

struct BucketPolicyName {
    const char* name;
    BucketPolicy policy;
};

inline constexpr std::array<BucketPolicyName, 5> bucket_policy_names{
    {{"ddp", BucketPolicy::ddp},
     {"single", BucketPolicy::single},
     {"per_layer", BucketPolicy::per_layer},
     {"cost_model", BucketPolicy::cost_model},
     {"auto", BucketPolicy::automatic}}};

inline std::string to_string(BucketPolicy policy) {
    return std::ranges::find(bucket_policy_names, policy, &BucketPolicyName::policy)->name;
}

/// Whether the run's first steps decide on the buckets.
inline bool is_measured(BucketPolicy policy) {
    return policy == BucketPolicy::automatic || policy == BucketPolicy::cost_model;
}

}  // namespace tutti
