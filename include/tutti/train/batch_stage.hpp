#pragma once
// The way of a batch from host memory into the graph's input.

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
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

/// What a stage sends to the device: samples of `max_batch`, and their labels or targets.
std::array<UploadPart, 2> upload_parts(const DatasetInfo& info, std::int64_t max_batch);

/// Brings batches to the device as they are in the file, normalises the pixels there, and holds what the
/// model is to make of them, labels or targets. A device that copies ahead gets the next batch while it
/// computes this one. Memory is allocated once, for `max_batch`. Calls for one loader: start, then for each
/// batch next, load, fetch_ahead; the loader must have been made for the same device, and outlive the stage.
class BatchStage {
  public:
    /// The normalisation: config's, else the file's, else {0, 1}. Throws UsageError when its length is
    /// neither 1 nor the number of channels.
    BatchStage(Device& device, const DatasetInfo& info, const DataConfig& config, DType compute,
               std::int64_t max_batch);

    /// Loader::start, after what was fetched ahead is dropped and has left the loader's memory.
    void start(Loader& loader, std::vector<std::int64_t> order, std::vector<BatchWindow> windows,
               std::int64_t epoch = 0);
    /// Loader::next. Where the device copies ahead the views stay valid until the second call after this one.
    std::optional<HostBatch> next(Loader& loader);
    /// input: [n, sample shape] of the compute type, n = batch.window.count > 0, of the batch that next()
    /// gave last (or of any in host memory, when next() is not used at all).
    void load(const HostBatch& batch, const TensorView& input);
    /// From here on wanted() of the batch loaded last stays valid until the next load(), also when the loader
    /// goes on to give batches to others.
    void keep_wanted();
    /// For the time after the work on a batch was given to the device and before its results are waited for:
    /// takes the next batch from the loader, which may mean reading it, and begins to copy it. What reading
    /// throws comes at its next(). Nothing where the device does not copy ahead.
    void fetch_ahead(Loader& loader);
    /// Labels i64[n], or targets f32[n, DatasetInfo::targets], of the batch loaded last, valid as long as its
    /// views unless they are kept.
    TensorView wanted() const { return wanted_; }
    Device& device() const { return device_; }
    /// For a rank without samples in this step.
    void load_nothing() { wanted_.shape = {0}; }
    /// For logits[n, K] of the batch loaded last, which has labels. Valid until the next call; the first
    /// allocates its memory.
    LabelRanks rank_labels(const TensorView& logits);

  private:
    struct Ahead {
        std::optional<HostBatch> batch;
        std::exception_ptr error;
    };
    std::optional<HostBatch> take_from(Loader& loader);
    void begin(const HostBatch& batch);
    void pass_over();

    Device& device_;
    Ops& ops_;
    std::vector<float> mean_, std_;
    DType sample_type_;
    std::int64_t targets_;
    std::unique_ptr<UploadLane> lane_;
    std::optional<Ahead> ahead_;
    bool begun_ = false;  // the batch that next() gave last is in the lane
    std::size_t ranks_bytes_;
    Buffer ranks_memory_;
    TensorView wanted_;
    std::vector<std::byte> kept_wanted_;
    std::vector<std::int64_t> ranks_;  // host copy of ranks_memory_
};

}  // namespace tutti
