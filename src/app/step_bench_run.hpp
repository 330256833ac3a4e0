#pragma once
// The measurements of `trainer bench step`, in their order.

#include <vector>

#include "step_report.hpp"
#include "training_recipe.hpp"

namespace tutti {

struct StepBenchOptions {
    RecipeArguments recipe;  ///< own_data: random samples instead of data.train
    Shape sample_shape;      ///< as for synthetic_data()
    std::size_t steps = 50, warmup = 10;
    std::vector<std::int64_t>
        products;  ///< n of the n × n products; empty: 1024 and 2048, on a GPU 4096 and 8192
};

/// Collective; the same report on every rank. Throws AgreedError, also when a signal asks any rank to stop.
StepReport run_step_bench(const JobStart& start, const StepBenchOptions& options);

}  // namespace tutti
