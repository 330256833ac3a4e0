#include "tutti/train/batch_stage.hpp"

#include <algorithm>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

std::vector<float> per_channel(const std::vector<double>& values, std::int64_t channels, const char* key) {
    if (values.size() != 1 && static_cast<std::int64_t>(values.size()) != channels)
        throw UsageError(std::string(key) + " has " + std::to_string(values.size()) +
                             " values, but the data have " + std::to_string(channels) + " channels",
                         "give one value or one per channel");
    std::vector<float> result(static_cast<std::size_t>(channels), static_cast<float>(values.front()));
    if (values.size() > 1)
        std::transform(values.begin(), values.end(), result.begin(),
                       [](double v) { return static_cast<float>(v); });
    return result;
}

}  // namespace

BatchStage::BatchStage(Device& device, const DatasetInfo& info, const DataConfig& config, DType compute,
                       std::int64_t max_batch)
    : device_(device),
      ops_(device.ops(compute)),
      sample_type_(info.dtype),
      samples_memory_(
          device.allocate(static_cast<std::size_t>(max_batch * info.sample_bytes()), "input samples")),
      labels_memory_(device.allocate(static_cast<std::size_t>(max_batch) * sizeof(std::int64_t), "labels")) {
    const std::int64_t channels = info.sample_shape[info.sample_shape.rank() - 1];
    if (config.normalize) {
        mean_ = per_channel(config.normalize->mean, channels, "data.normalize.mean");
        std_ = per_channel(config.normalize->std, channels, "data.normalize.std");
    } else {
        mean_ = info.mean;
        std_ = info.std;
    }
    if (mean_.empty()) mean_.assign(static_cast<std::size_t>(channels), 0.0F);
    if (std_.empty()) std_.assign(static_cast<std::size_t>(channels), 1.0F);
    labels_ = labels_memory_.view(0, DType::i64, {0});
}

void BatchStage::load(const HostBatch& batch, const TensorView& input) {
    const TensorView samples = samples_memory_.view(0, sample_type_, input.shape);
    device_.copy_from_host(samples, batch.samples.data());
    ops_.normalize(samples, mean_, std_, input);
    labels_.shape = {batch.window.count};
    device_.copy_from_host(labels_, batch.labels.data());
}

LabelRanks BatchStage::rank_labels(const TensorView& logits) {
    const std::int64_t n = labels_.count();
    const std::size_t count = static_cast<std::size_t>(n), bytes = count * sizeof(std::int64_t);
    if (ranks_memory_.size() == 0) {
        ranks_memory_ = device_.allocate(2 * labels_memory_.size(), "ranks of labels");
        ranks_.resize(ranks_memory_.size() / sizeof(std::int64_t));
    }
    const TensorView predicted = ranks_memory_.view(0, DType::i64, {n});
    const TensorView place = ranks_memory_.view(bytes, DType::i64, {n});
    ops_.rank_labels(logits, labels_, predicted, place);
    device_.copy_to_host(ranks_.data(), ranks_memory_.view(0, DType::i64, {2 * n}));
    return {std::span(ranks_).first(count), std::span(ranks_).subspan(count, count)};
}

}  // namespace tutti
