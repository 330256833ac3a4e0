#include "resume_changes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tutti/base/error.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/schedule.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

/// Where the files have the same names.
constexpr std::string_view other_samples =
    "data.train: the samples, their number, labels or targets, or their normalisation are not what they were";

/// What evaluations see of the images: the size of crops, and how much of an image those take that are
/// resized.
std::vector<std::array<double, 3>> crops_of(const DataConfig& data) {
    std::vector<std::array<double, 3>> crops;
    for (const TransformSpec& spec : data.transforms)
        if (spec.height > 0)
            crops.push_back({static_cast<double>(spec.height), static_cast<double>(spec.width),
                             spec.kind == TransformSpec::Kind::random_resized_crop ? spec.center : 0});
    return crops;
}

bool is_other_data(const DataConfig& before, const DataConfig& now) {
    return before.val != now.val || before.normalize != now.normalize || crops_of(before) != crops_of(now);
}

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

/// Whether the settings that changed would not be used: a checkpoint has weights of its own.
bool only_first_weights(const std::vector<std::string>& changed) {
    return std::ranges::all_of(changed,
                               [](const std::string& line) { return line.starts_with("model.init_"); });
}

/// What scales the learning rate.
std::string scaling_text(const TrainConfig& train) {
    if (train.scale_lr_by_world_size) return ", scaled by the number of ranks";
    return train.scale_lr_by_batch ? ", scaled by the number of samples" : "";
}

}  // namespace

void refuse_other_training(const Config& before, const Config& now, const std::string& path,
                           std::int64_t classes) {
    // What was written differently may be the same model.
    Config then = before, today = now;
    if (classes > 0 && then.model.classes.has_value() != today.model.classes.has_value())
        (then.model.classes ? today : then).model.classes = classes;
    for (Config* config : {&then, &today}) config->model.layers = without_defaults(config->model.layers);
    const std::vector<std::string> changed = training_differences(then, today);
    if (!changed.empty())
        throw UsageError(
            fmt::format("{} was trained with other settings ({})", path, fmt::join(changed, ", ")),
            only_first_weights(changed)
                ? "leave model.init_from out to go on with the checkpoint's weights, or start anew from "
                  "those with "
                  "run.resume=never or another run.dir"
                : "restore them, or start anew with run.resume=never or another run.dir");
}

SameData compare_data(const std::string& before, const std::string& now) {
    if (before.empty() || now.empty()) return SameData::unknown;
    return before == now ? SameData::yes : SameData::no;
}

void refuse_untrained_data(const Config& before, const Config& now, SameData same, const std::string& path,
                           const std::string& to_go_on) {
    const bool other_data =
        same == SameData::no || (same == SameData::unknown && before.data.train != now.data.train);
    if (!other_data && before.data.normalize == now.data.normalize) return;
    std::vector<std::string> changed;
    for (const std::string& line : course_differences(before, now))
        if ((other_data && line.starts_with("data.train:")) || line.starts_with("data.normalize:"))
            changed.push_back(line);
    if (changed.empty()) changed.push_back(std::string(other_samples));
    throw UsageError(fmt::format("{} is of a run that is finished, and was trained on other data ({})", path,
                                 fmt::join(changed, ", ")),
                     to_go_on +
                         " goes on with these; run.resume=never or another run.dir starts anew; trainer eval "
                         "evaluates what "
                         "there is");
}

std::vector<std::string> course_changes(const Config& before, int world_before, const Config& now, int world,
                                        SameData same) {
    std::vector<std::string> list = course_differences(before, now);
    if (same == SameData::no && before.data.train == now.data.train) list.emplace_back(other_samples);
    const std::int64_t old_batch = samples_per_update(before, world_before);
    const std::int64_t new_batch = samples_per_update(now, world);
    if (old_batch != new_batch)
        list.push_back(fmt::format("samples per update: {} -> {}", old_batch, new_batch));
    const double old_rate = scaled_rates(before, world_before).base, rate = scaled_rates(now, world).base;
    const std::string then = scaling_text(before.train);
    if (before.optim.lr == now.optim.lr && old_rate != rate)
        list.push_back(fmt::format("learning rate{}: {:g} -> {:g}",
                                   then == scaling_text(now.train) ? then : "", old_rate, rate));
    return list;
}

MetricChanges::MetricChanges(const Config& before, const Config& now, bool other_samples) {
    const TrainConfig &then = before.train, &today = now.train;
    const bool location = today.loss == LossChoice::location, segments = today.loss == LossChoice::segments;
    data_ = other_samples || is_other_data(before.data, now.data);
    ema_ = then.ema.has_value() != today.ema.has_value();
    loss_ = is_other_loss(then, today);
    selection_ = segments && !(then.segments == today.segments);
    places_ = location && then.soft_argmax != today.soft_argmax;
    presence_ = location && (then.presence_score != today.presence_score ||
                             then.presence_threshold != today.presence_threshold);
    earth_ = before.data.latitudes != now.data.latitudes || before.data.longitudes != now.data.longitudes;
}

bool MetricChanges::metric(const std::string& name) const {
    if (data_ || ema_) return true;
    if (name == "val/loss") return loss_;
    if (name == "val/atiou") return selection_;
    if (name == "val/km") return earth_ || places_;
    if (name == "val/distance") return places_;
    return presence_;
}

}  // namespace tutti
