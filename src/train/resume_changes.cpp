#include "resume_changes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "tutti/base/error.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/schedule.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

bool is_other_loss(const TrainConfig& before, const TrainConfig& now) {
    const auto of_location = [](const TrainConfig& train) {
        return std::array{train.heatmap_sigma, train.heatmap_weight, train.presence_weight};
    };
    const auto of_segments = [](const TrainConfig& train) {
        return std::array{train.focal_alpha, train.focal_gamma, train.focal_weight, train.offset_weight};
    };
    if (now.loss == LossChoice::location && of_location(before) != of_location(now)) return true;
    if (now.loss == LossChoice::segments && of_segments(before) != of_segments(now)) return true;
    return before.loss != now.loss && (is_regression(before.loss) || is_regression(now.loss));
}

}  // namespace

void refuse_other_training(const Config& before, const Config& now, const std::string& path) {
    // What was written differently may be the same model.
    Config then = before, today = now;
    for (Config* config : {&then, &today}) config->model.layers = without_defaults(config->model.layers);
    const std::vector<std::string> changed = training_differences(then, today);
    if (!changed.empty())
        throw UsageError(
            fmt::format("{} was trained with other settings ({})", path, fmt::join(changed, ", ")),
            "restore them, or start anew with run.resume=never or another run.dir");
}

std::vector<std::string> course_changes(const Config& before, int world_before, const Config& now,
                                        int world) {
    std::vector<std::string> list = course_differences(before, now);
    const std::int64_t old_batch = samples_per_update(before, world_before);
    const std::int64_t new_batch = samples_per_update(now, world);
    if (old_batch != new_batch)
        list.push_back(fmt::format("samples per update: {} -> {}", old_batch, new_batch));
    const double old_rate = scaled_rates(before, world_before).base, rate = scaled_rates(now, world).base;
    if (before.optim.lr == now.optim.lr && old_rate != rate)
        list.push_back(fmt::format("learning rate, scaled by the number of {}: {:g} -> {:g}",
                                   now.train.scale_lr_by_batch ? "samples" : "ranks", old_rate, rate));
    return list;
}

MetricChanges::MetricChanges(const Config& before, const Config& now) {
    const TrainConfig &then = before.train, &today = now.train;
    const bool location = today.loss == LossChoice::location, segments = today.loss == LossChoice::segments;
    data_ = before.data.val != now.data.val;
    loss_ = is_other_loss(then, today);
    selection_ = segments && !(then.segments == today.segments);
    places_ = location && then.soft_argmax != today.soft_argmax;
    presence_ = location && (then.presence_score != today.presence_score ||
                             then.presence_threshold != today.presence_threshold);
    earth_ = before.data.latitudes != now.data.latitudes || before.data.longitudes != now.data.longitudes;
}

bool MetricChanges::metric(const std::string& name) const {
    if (data_) return true;
    if (name == "val/loss") return loss_;
    if (name == "val/atiou") return selection_;
    if (name == "val/km") return earth_ || places_;
    if (name == "val/distance") return places_;
    return presence_;
}

}  // namespace tutti
