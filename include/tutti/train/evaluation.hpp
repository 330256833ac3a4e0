#pragma once
// Exact metrics over a data set, sharded over the ranks and never padded.

#include <cstdint>
#include <vector>

#include "tutti/base/log.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/input/geography.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/train/asked_metrics.hpp"
#include "tutti/train/batch_stage.hpp"
#include "tutti/train/evaluation_result.hpp"
#include "tutti/train/skipped_samples.hpp"

namespace tutti {

/// What a thread evaluates with.
struct EvaluationLane {
    Graph& graph;
    Loss& loss;
    BatchStage& stage;
};

/// What one pass needs; all references must outlive the call.
struct EvaluationJob {
    std::vector<EvaluationLane> lanes;  ///< one at least
    const Dataset& dataset;
    Loader& loader;  ///< of `dataset`
    Communicator& communicator;
    std::int64_t batch_size = 1;  ///< of a virtual shard, where there are such
    std::int64_t seed = 0;
    AskedMetrics metrics = {};
    /// Of `dataset`, whose targets are then places, of a locator or x and y alone. Null: not known.
    const Geography* geography = nullptr;
    /// Told of samples that the loader skipped, and where rank 0 names them; null: the loader skips none.
    SkippedSamples* skipped = nullptr;
    Log* log = nullptr;
    /// Ends early where a StopSignal has noted a signal on a rank; the result then says so.
    bool ends_on_signal = false;
    /// In deterministic mode: the data set is cut into that many shards as a global batch is (ShardLayout),
    /// and the losses of each are added up along their tree. 0: none.
    std::int64_t virtual_shards = 0;
    /// In deterministic mode, whose lanes: each computes on one thread, and takes the next batch when it has
    /// done with one (Device::run_lanes). Which lane computes a batch changes no bit. Null: the calling
    /// thread uses lane 0 alone, and the device all its threads.
    Device* device = nullptr;
};

/// Rank r computes the samples r, r+R, … < N; one all-reduce at the end, sums in double; scores are gathered
/// behind it, unless a signal stopped the ranks. Collective: a rank that cannot read its samples makes all
/// ranks throw the same DataError (AgreedError), and so do more than half of the samples that were skipped.
/// One that a signal stops ends on all ranks when each has stopped or is through: at once where all were sent
/// it, as launchers do.
EvaluationResult evaluate(const EvaluationJob& job);

}  // namespace tutti
