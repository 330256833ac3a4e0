// How two configurations differ, and which of that a resume refuses or warns of.

#include <fmt/format.h>

#include <set>

#include "config_schema.hpp"
#include "tutti/base/device_choice.hpp"
#include "tutti/base/model_differences.hpp"

namespace tutti {
namespace {

using config::in_section;
using config::Row;

/// The value as text, or "not set" where the model does not know the key.
std::string printed(const Row& row, const Config& config) {
    return in_section(row, "model") && !config::knows(row, config::model_of(config)) ? "not set"
                                                                                     : row.print(config);
}

/// "optim.lr: 0.05 -> 0.1" of the rows for which `counts` is true. form: of path, value before and value now.
template <class Counts>
std::vector<std::string> differences(
    const Config& before, const Config& now, const Counts& counts,
    fmt::format_string<const std::string&, const std::string&, const std::string&> form = "{}: {} -> {}") {
    std::vector<std::string> result;
    for (const Row& row : config::rows()) {
        if (!counts(row)) continue;
        const std::string old_value = printed(row, before), new_value = printed(row, now);
        if (old_value != new_value) result.push_back(fmt::format(form, row.path, old_value, new_value));
    }
    return result;
}

}  // namespace

std::vector<std::string> training_differences(const Config& before, const Config& now) {
    // Shards and device decide every bit, of which two deterministic parts of one run are to be the same.
    const bool bits_count = before.run.deterministic && now.run.deterministic;
    Config then = before, today = now;
    for (Config* config : {&then, &today}) config->device = choice_of(*config);
    const bool other_outputs = is_regression(before.train.loss) != is_regression(now.train.loss);
    return differences(then, today, [&](const Row& row) {
        if (row.path == "train.loss") return other_outputs;
        if (row.path == "run.virtual_shards" || row.path == "device") return bits_count;
        // What is no longer said of the first weights takes nothing from those that there are.
        if (row.path == "model.init_from" || row.path == "model.init_except")
            return !now.model.init_from.empty();
        return in_section(row, "model") || in_section(row, "optim");
    });
}

std::vector<std::string> model_differences(const Config& there, const Config& here) {
    const auto counts = [](const Row& row) {
        return in_section(row, "model") && !row.path.starts_with("model.init_") &&
               !row.path.starts_with("model.freeze");
    };
    return differences(there, here, counts, "{} is {} there and {} here");
}

std::vector<std::string> all_differences(const Config& before, const Config& now) {
    return differences(before, now, [](const Row&) { return true; });
}

std::vector<std::string> course_differences(const Config& before, const Config& now) {
    static const std::set<std::string_view> keys{"run.seed",
                                                 "run.deterministic",
                                                 "data.train",
                                                 "data.val",
                                                 "data.shuffle",
                                                 "data.drop_last",
                                                 "data.tail",
                                                 "data.normalize",
                                                 "data.transforms",
                                                 "data.on_error",
                                                 "data.latitudes",
                                                 "data.longitudes",
                                                 "train.epochs",
                                                 "train.accumulate",
                                                 "train.loss",
                                                 "train.heatmap_sigma",
                                                 "train.heatmap_weight",
                                                 "train.presence_weight",
                                                 "train.soft_argmax",
                                                 "train.presence_score",
                                                 "train.presence_threshold",
                                                 "train.focal_alpha",
                                                 "train.focal_gamma",
                                                 "train.focal_weight",
                                                 "train.offset_weight",
                                                 "train.segments.threshold",
                                                 "train.segments.candidates",
                                                 "train.segments.shortest",
                                                 "train.segments.longest",
                                                 "train.segments.per_minute",
                                                 "train.segments.nms_sigma",
                                                 "train.segments.min_score",
                                                 "train.label_smoothing",
                                                 "train.class_weights",
                                                 "train.precision",
                                                 "train.ema",
                                                 "train.scale_lr_by_world_size",
                                                 "train.scale_lr_by_batch",
                                                 "train.nan_policy",
                                                 "train.early_stopping",
                                                 "train.checkpoint.best",
                                                 "train.checkpoint.best_from",
                                                 "distributed.compress",
                                                 "distributed.sync_batch_norm"};
    Config then = before, today = now;
    for (Config* config : {&then, &today})
        if (!is_regression(config->train.loss)) config->train.loss = LossChoice::automatic;
    // More epochs of a constant rate are the same training, only longer.
    const auto ends_with_epochs = [](const Config& config) {
        return config.schedule.name == "cosine" || config.schedule.name == "linear";
    };
    const bool same_horizon = !ends_with_epochs(before) && !ends_with_epochs(now);
    return differences(then, today, [&](const Row& row) {
        if (row.path == "train.epochs" && same_horizon) return false;
        return in_section(row, "schedule") || keys.contains(row.path);
    });
}

}  // namespace tutti
