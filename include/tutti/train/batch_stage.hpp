#pragma once
// The way of a batch from host memory into the graph's input.

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/device/device.hpp"
#include "tutti/input/loader.hpp"

namespace tutti {

/// Where the labels of a batch stand among its logits (Ops::rank_labels), in host memory, one per sample.
struct LabelRanks {
    std::span<const std::int64_t> predicted, place;
};

/// Normalises pixels and holds the labels of the batch on the device. Memory is allocated once, for
/// `max_batch`.
class BatchStage {
  public:
    /// The normalisation: config's, else the file's, else {0, 1}. Throws UsageError when its length is
    /// neither 1 nor the number of channels.
    BatchStage(Device& device, const DatasetInfo& info, const DataConfig& config, DType compute,
               std::int64_t max_batch);

    /// input: [n, sample shape] of the compute type, n = batch.window.count.
    void load(const HostBatch& batch, const TensorView& input);
    /// i64[n] of the batch loaded last.
    TensorView labels() const { return labels_; }
    /// For a rank without samples in this step.
    void load_nothing() { labels_.shape = {0}; }
    /// For logits[n, K] of the batch loaded last. Valid until the next call; the first allocates its memory.
    LabelRanks rank_labels(const TensorView& logits);

  private:
    Device& device_;
    Ops& ops_;
    std::vector<float> mean_, std_;
    DType sample_type_;
    Buffer samples_memory_, labels_memory_, ranks_memory_;
    TensorView labels_;
    std::vector<std::int64_t> ranks_;  // host copy of ranks_memory_
};

}  // namespace tutti
