#include "tutti/train/batch_stage.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "tutti/train/normalisation.hpp"

namespace tutti {

std::array<UploadPart, 2> upload_parts(const DatasetInfo& info, std::int64_t max_batch) {
    const std::size_t wanted =
        info.targets > 0 ? static_cast<std::size_t>(info.targets) * sizeof(float) : sizeof(std::int64_t);
    // Labels and targets are read by the loss, which may be part of a captured graph; of the samples that
    // graph sees only what normalisation makes.
    return {UploadPart{.bytes = static_cast<std::size_t>(max_batch * info.sample_bytes())},
            UploadPart{.bytes = static_cast<std::size_t>(max_batch) * wanted, .one_address = true}};
}

BatchStage::BatchStage(Device& device, const DatasetInfo& info, const DataConfig& config, DType compute,
                       std::int64_t max_batch)
    : device_(device),
      ops_(device.ops(compute)),
      sample_type_(info.dtype),
      targets_(info.targets),
      lane_(device.make_upload_lane(upload_parts(info, max_batch))),
      ranks_bytes_(2 * static_cast<std::size_t>(max_batch) * sizeof(std::int64_t)),
      wanted_{nullptr, DType::i64, {0}} {
    Normalisation normalisation = normalisation_of(config, info);
    mean_ = std::move(normalisation.mean);
    std_ = std::move(normalisation.std);
}

void BatchStage::start(Loader& loader, std::vector<std::int64_t> order, std::vector<BatchWindow> windows,
                       std::int64_t epoch) {
    pass_over();
    if (ahead_ && ahead_->batch && ahead_->batch->window.count > 0) {
        begun_ = true;
        pass_over();
    }
    ahead_.reset();
    lane_->wait_until_read();
    loader.start(std::move(order), std::move(windows), epoch);
}

std::optional<HostBatch> BatchStage::next(Loader& loader) {
    pass_over();
    if (!ahead_) {
        std::optional<HostBatch> batch = take_from(loader);
        begun_ = batch && batch->window.count > 0;
        return batch;
    }
    Ahead ahead = std::move(*ahead_);
    ahead_.reset();
    if (ahead.error) std::rethrow_exception(std::move(ahead.error));
    begun_ = ahead.batch && ahead.batch->window.count > 0;
    return ahead.batch;
}

void BatchStage::fetch_ahead(Loader& loader) {
    if (!device_.uploads_ahead() || ahead_) return;
    Ahead ahead;
    try {
        ahead.batch = take_from(loader);
    } catch (...) {
        ahead.error = std::current_exception();
    }
    ahead_ = std::move(ahead);
}

std::optional<HostBatch> BatchStage::take_from(Loader& loader) {
    // The loader's next batch takes the memory of an earlier one.
    lane_->wait_until_read();
    std::optional<HostBatch> batch = loader.next();
    if (batch && batch->window.count > 0) begin(*batch);
    return batch;
}

void BatchStage::begin(const HostBatch& batch) {
    const std::array<std::span<const std::byte>, 2> parts{
        batch.samples, targets_ > 0 ? std::as_bytes(batch.targets) : std::as_bytes(batch.labels)};
    lane_->begin(parts);
}

/// What was begun for a batch that is not loaded, after an error, leaves the lane.
void BatchStage::pass_over() {
    if (!std::exchange(begun_, false)) return;
    lane_->take();
    lane_->release();
}

void BatchStage::load(const HostBatch& batch, const TensorView& input) {
    if (!std::exchange(begun_, false)) begin(batch);
    const std::span<std::byte* const> parts = lane_->take();
    ops_.normalize({parts[0], sample_type_, input.shape}, mean_, std_, input);
    if (targets_ > 0)
        wanted_ = {parts[1], DType::f32, {batch.window.count, targets_}};
    else
        wanted_ = {parts[1], DType::i64, {batch.window.count}};
    lane_->release();
}

void BatchStage::keep_wanted() {
    if (device_.uploads_ahead()) return;  // in its memory, where the next batch's come no sooner than load()
    const std::byte* const data = wanted_.data;
    kept_wanted_.assign(data, data + wanted_.bytes());
    wanted_.data = kept_wanted_.data();
}

LabelRanks BatchStage::rank_labels(const TensorView& logits) {
    const std::int64_t n = wanted_.count();
    const std::size_t count = static_cast<std::size_t>(n), bytes = count * sizeof(std::int64_t);
    if (ranks_memory_.size() == 0) {
        ranks_memory_ = device_.allocate(ranks_bytes_, "ranks of labels");
        ranks_.resize(ranks_memory_.size() / sizeof(std::int64_t));
    }
    const TensorView predicted = ranks_memory_.view(0, DType::i64, {n});
    const TensorView place = ranks_memory_.view(bytes, DType::i64, {n});
    ops_.rank_labels(logits, wanted_, predicted, place);
    device_.copy_to_host(ranks_.data(), ranks_memory_.view(0, DType::i64, {2 * n}));
    return {std::span(ranks_).first(count), std::span(ranks_).subspan(count, count)};
}

}  // namespace tutti
