#pragma once
// The measurements of `trainer bench buckets`, in their order.

#include <optional>
#include <string>

#include "bucket_report.hpp"
#include "training_recipe.hpp"
#include "tutti/train/plan_steps.hpp"

namespace tutti {

struct BucketBenchOptions {
    RecipeArguments recipe;  ///< own_data: random samples instead of data.train
    Shape sample_shape;      ///< as for synthetic_data()
    PlanRequest plans;       ///< first_bucket_mb comes from the config
    BenchRounds rounds;
    /// Replay: from this file, or, when it is empty, from a measurement on rank 0 alone.
    std::optional<std::string> replay;
};

/// Collective; the same report on every rank but for the pictures and the profile, which are the rank's own.
/// Throws AgreedError, also when a signal asks any rank to stop.
BucketReport run_bucket_bench(const JobStart& start, const BucketBenchOptions& options);

}  // namespace tutti
