#pragma once
// One row per sample, in the order of the data set, from any number of ranks.

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/comm/communicator.hpp"
#include "tutti/device/device.hpp"
#include "tutti/input/geography.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/input/sample_paths.hpp"
#include "tutti/model/embedding.hpp"
#include "tutti/train/batch_stage.hpp"
#include "tutti/train/location.hpp"
#include "tutti/train/prediction_file.hpp"
#include "tutti/train/segments.hpp"

namespace tutti {

/// What one pass needs; all references must outlive the call.
struct PredictionJob {
    Graph& graph;
    Device& device;
    BatchStage& stage;
    const Dataset& dataset;
    Loader& loader;  ///< of `dataset`
    Communicator& communicator;
    const PredictionFormat& format;
    const Embedding* embedding = nullptr;  ///< needed when the format has embeddings
    PredictionWriter* writer = nullptr;    ///< rank 0's; null on the others
    const SamplePaths* paths = nullptr;    ///< of `dataset`, beside the writer when the format has paths
    /// Of a locator, whose rows hold location_columns as outputs.
    std::optional<LocationDecoding> location = {};
    /// Of a model that tells segments, by what; its rows hold segment_columns as outputs.
    std::optional<SegmentsConfig> segments = {};
    /// Of `dataset`, when the format has earth: of a locator, or a model whose outputs are x and y.
    const Geography* geography = nullptr;
    std::int64_t batch_size = 1;
    std::int64_t seed = 0;
    /// Rows that travel at once, of all ranks together, take at most about this much memory on each rank.
    std::size_t gather_bytes = std::size_t{64} << 20;
};

struct PredictionCounts {
    std::int64_t samples = 0, correct = 0;  ///< correct: 0 without labels, and of targets
    std::int64_t not_finite = 0;            ///< samples without a class, else with an output that is not
};

/// Rank r computes the samples r, r+R, … < N, batch by batch; after each, all-gathers of equal blocks bring
/// the rows to rank 0, which appends them in the order of the data set. Nothing is padded: a block's unused
/// rows are not written. The same counts on every rank. Collective: what stops one rank (a sample that cannot
/// be read, a full disk, a stop signal noted by StopSignal) makes all throw the same AgreedError; the file is
/// not committed here.
PredictionCounts predict(const PredictionJob& job);

}  // namespace tutti
