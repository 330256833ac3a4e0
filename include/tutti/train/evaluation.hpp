#pragma once
// Exact metrics over a data set, sharded over the ranks and never padded.

#include <cstdint>
#include <string>

#include "tutti/comm/communicator.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/train/batch_stage.hpp"

namespace tutti {

/// What one pass needs; all references must outlive the call.
struct EvaluationJob {
    Graph& graph;
    Loss& loss;
    BatchStage& stage;
    const Dataset& dataset;
    Loader& loader;  ///< of `dataset`
    Communicator& communicator;
    std::int64_t batch_size = 1;
    std::int64_t seed = 0;
};

/// Rank r computes the samples r, r+R, … < N; one all-reduce at the end, sums in double. Collective: a rank
/// that cannot read its samples makes all ranks throw the same DataError (AgreedError).
LossSums evaluate(const EvaluationJob& job);

/// "0.8990 (8990 of 10000)"
std::string accuracy_text(const LossSums& sums);

}  // namespace tutti
