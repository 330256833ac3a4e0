#pragma once
// How `trainer bench loader` measures.

#include <cstddef>
#include <cstdint>

#include "loader_report.hpp"
#include "training_recipe.hpp"

namespace tutti {

struct LoaderBenchOptions {
    RecipeArguments recipe;
    std::size_t rounds = 5;       ///< ≥ 1, with the files in the page cache
    std::size_t cold_rounds = 2;  ///< with the files evicted from it; 0: none
    std::int64_t batches = 0;     ///< of a round and rank; 0: the epoch, but at most about 4 GiB
};

/// Loads batches of data.train in shuffled order and in the order of the files, with 0, 1, 2 and the
/// config's workers, in turn with a plain sequential read. Collective; throws AgreedError, also after a
/// signal.
LoaderReport run_loader_bench(const JobStart& start, const LoaderBenchOptions& options);

}  // namespace tutti
