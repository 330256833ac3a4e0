#pragma once
// Which metrics a config asks evaluations for.

#include <cstdint>
#include <optional>

#include "tutti/base/config.hpp"
#include "tutti/train/location.hpp"
#include "tutti/train/segments.hpp"

namespace tutti {

/// What an evaluation finds beside the loss.
struct AskedMetrics {
    std::int64_t topk = 0;   ///< k of the top-k accuracy; 0: none
    bool confusion = false;  ///< count every pair of label and prediction
    bool ranking = false;    ///< keep the scores of all samples, of two classes; else nothing
    bool loss_only = false;  ///< the outputs are neither logits nor compared with targets
    /// Of a locator, whose outputs are a heat map and presence.
    std::optional<LocationTask> location = {};
    /// Of a model that predicts segments, and how.
    std::optional<SegmentTask> segments = {};
};
/// Those that a config asks for, of a model with so many outputs. Pure.
AskedMetrics asked_metrics(const TrainConfig& config, std::int64_t outputs);

/// The k of the top-k accuracy that a config asks for, 0: none. Unless it says, 5 where "val/top5" decides
/// something or there are 10 classes and more. Pure.
std::int64_t topk_of(const TrainConfig& config, std::int64_t classes);
/// Whether a config asks how well the model's scores order the samples: of a locator always, of two classes
/// where train.confusion is true or such a metric decides something. Pure.
bool ranking_of(const TrainConfig& config, std::int64_t classes);
/// Throws UsageError where train.topk is given and more than the `classes` of the model: all would be hits;
/// and where train.confusion asks for a matrix of more than 2048 classes, each rank's 34 MB at that, and a
/// row of metrics.jsonl of 13 MB or more; and where a metric of two classes is to decide, but there are not
/// two.
void check_metrics(const TrainConfig& config, std::int64_t classes);

}  // namespace tutti
