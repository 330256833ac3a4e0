#include "tutti/train/objective.hpp"
#include "tutti/base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/base/ranking_metric_names.hpp"

namespace tutti {
namespace {

RegressionLoss kind_of(LossChoice choice) {
    if (choice == LossChoice::l1) return RegressionLoss::absolute;
    return choice == LossChoice::huber ? RegressionLoss::huber : RegressionLoss::squared;
}

bool is_metric_of_targets(const std::string& metric) {
    return std::ranges::find(regression_metrics, metric) != regression_metrics.end();
}

/// By models that say neither classes nor targets; null: they do.
const char* only_thing_said(Objective objective) {
    if (objective == Objective::location) return "presence and place";
    if (objective == Objective::segments) return "segments";
    return objective == Objective::hidden_input ? "hidden pixels" : nullptr;
}

/// setting: that of classes (or of targets).
[[noreturn]] void refuse(const std::string& setting, bool of_targets, const std::string& name,
                         Objective objective, const char* remedy = "leave it out") {
    if (const char* says = only_thing_said(objective))
        throw UsageError(fmt::format("{} is for {}, but the model says {}", setting,
                                     of_targets ? "targets" : "classes", says),
                         remedy);
    throw UsageError(fmt::format("{} is for {}, but {} has {}", setting, of_targets ? "targets" : "classes",
                                 name, of_targets ? "classes" : "targets"),
                     remedy);
}

void check_metric(const std::string& setting, const std::string& metric, const std::string& name,
                  Objective objective) {
    if (metric.empty() || metric == "val/loss") return;
    const bool of_targets = is_metric_of_targets(metric);
    if (objective == Objective::location &&
        (is_ranking_metric(metric) || metric == "val/distance" || metric == "val/km" ||
         metric == "val/accuracy" || metric == "val/balanced_accuracy"))
        return;
    const bool of_segments = metric == "val/atiou";
    if (objective == Objective::segments && (of_segments || metric == "val/balanced_accuracy")) return;
    if (!of_segments && objective == (of_targets ? Objective::targets : Objective::classes)) return;
    const char* remedy =
        "give val/loss, val/accuracy, val/top5, val/balanced_accuracy, or of two classes val/auprc or "
        "val/roc_auc";
    if (objective == Objective::targets) remedy = "give val/loss, val/mae, val/rmse, val/distance or val/km";
    if (objective == Objective::hidden_input) remedy = "give val/loss";
    if (objective == Objective::location)
        remedy =
            "give val/loss, val/distance, val/km, val/accuracy, val/balanced_accuracy, val/auprc or "
            "val/roc_auc";
    if (objective == Objective::segments) remedy = "give val/loss, val/atiou or val/balanced_accuracy";
    if (of_segments)
        throw UsageError(setting + " " + metric + " is for the model temporal_transformer alone", remedy);
    refuse(setting + " " + metric, of_targets, name, objective, remedy);
}

}  // namespace

Objective objective_of(const TrainConfig& config, const DatasetInfo& data) {
    const LossChoice loss = loss_of_run(config, data);
    if (loss == LossChoice::reconstruction) return Objective::hidden_input;
    if (loss == LossChoice::location) return Objective::location;
    if (loss == LossChoice::segments) return Objective::segments;
    return is_regression(loss) ? Objective::targets : Objective::classes;
}

std::optional<LocationTask> location_of_run(const TrainConfig& config) {
    if (config.loss != LossChoice::location) return {};
    const LocationLoss loss{.sigma = config.heatmap_sigma,
                            .heat_map_weight = config.heatmap_weight,
                            .presence_weight = config.presence_weight};
    return LocationTask{.loss = loss,
                        .decoding = {.stride = loss.stride,
                                     .soft_argmax = config.soft_argmax,
                                     .presence_score = config.presence_score,
                                     .presence_threshold = config.presence_threshold}};
}

std::optional<PlaceTargets> place_targets(const TrainConfig& config, const DatasetInfo& data) {
    if (config.loss == LossChoice::location) return PlaceTargets{.x = 1, .y = 2};
    using Names = std::vector<std::string>;
    for (const auto& [x, y] : {std::pair{"x", "y"}, {"x_pix", "y_pix"}, {"cx", "cy"}}) {
        if (data.target_names == Names{x, y}) return PlaceTargets{.x = 0, .y = 1};
        if (data.target_names == Names{y, x}) return PlaceTargets{.x = 1, .y = 0};
    }
    return {};
}

std::optional<SegmentTask> segments_of_run(const TrainConfig& config) {
    if (config.loss != LossChoice::segments) return {};
    return SegmentTask{.loss = {.alpha = config.focal_alpha,
                                .gamma = config.focal_gamma,
                                .class_weight = config.focal_weight,
                                .offset_weight = config.offset_weight},
                       .selection = config.segments};
}

Labels labels_needed(const Config& config) {
    return config.train.loss == LossChoice::reconstruction ? Labels::optional : Labels::required;
}

LossChoice loss_of_run(const TrainConfig& config, const DatasetInfo& data) {
    return config.loss == LossChoice::automatic && data.targets > 0 ? LossChoice::mse : config.loss;
}

Config config_with_objective(Config config, const DatasetInfo& data) {
    config.train.loss = loss_of_run(config.train, data);
    if (objective_of(config.train, data) == Objective::targets && data.targets > 0 &&
        config.model.layers.empty())
        config.model.classes = data.targets;
    return config;
}

void check_normalize(const DataConfig& config, const Shape& sample) {
    if (!config.normalize) return;
    const std::int64_t channels = sample[sample.rank() - 1];
    for (const auto& [key, count] :
         {std::pair{"mean", config.normalize->mean.size()}, std::pair{"std", config.normalize->std.size()}})
        if (count != 1 && count != static_cast<std::size_t>(channels))
            throw UsageError(fmt::format("data.normalize.{} has {}, but the data have {}", key,
                                         counted(count, "value"), counted(channels, "channel")),
                             "give one value or one per channel");
    const double mean = config.normalize->mean.back(), std = config.normalize->std.back();
    if (sample.rank() == 2 && (mean != 0 || std != 1))
        throw UsageError(
            fmt::format("data.normalize has mean {} and std {} for the last feature of sequences, which "
                        "says whether a step exists and must stay what it is",
                        mean, std),
            fmt::format(
                "give a value for each of the {} features, for the last one mean 0 and std 1, or pack "
                "the data with --mean and --std, which leave it out",
                channels));
}

ModelInput model_input(const DatasetInfo& data, const DataConfig& config) {
    ModelInput input{data.sample_shape, data.targets > 0 ? data.targets : data.classes, data.targets > 0,
                     data.std, data.frames};
    if (!config.normalize) return input;
    check_normalize(config, data.sample_shape);
    input.std.assign(config.normalize->std.begin(), config.normalize->std.end());
    return input;
}

GraphSpec build_model_for(const ModelConfig& config, const ModelInput& input, const DatasetInfo& data) {
    try {
        return build_model(config, input);
    } catch (const UsageError& error) {
        // That no kernel or patch fits images of 3 pixels is a consequence.
        const std::string doubt = doubt_about_layout(data);
        if (doubt.empty()) throw;
        throw UsageError("data: " + doubt, std::string("if not: ") + error.what());
    }
}

void check_geography(const DataConfig& config, LossChoice loss, std::int64_t targets) {
    if (!config.has_geography()) return;
    if (config.latitudes.empty() || config.longitudes.empty())
        throw UsageError(config.latitudes.empty() ? "data.longitudes is given without data.latitudes"
                                                  : "data.latitudes is given without data.longitudes",
                         "give both, or none");
    if (loss == LossChoice::location || (is_regression(loss) && targets == 2)) return;
    throw UsageError(
        fmt::format("data.latitudes is for models that tell a place, but this one says {}",
                    is_regression(loss)                  ? fmt::format("{} numbers", targets)
                    : loss == LossChoice::segments       ? "segments"
                    : loss == LossChoice::reconstruction ? "hidden pixels"
                                                         : "classes"),
        "leave it and data.longitudes out, or give data with two targets, x and y, or the model locator");
}

void check_objective(const TrainConfig& config, const DatasetInfo& data, const std::string& name) {
    const Objective objective = objective_of(config, data);
    const bool regression = objective == Objective::targets;
    if (objective == Objective::location && data.targets != location_targets)
        throw UsageError(fmt::format("the model locator learns from three targets, presence, x and y, but {} "
                                     "has {}",
                                     name, data.targets > 0 ? std::to_string(data.targets) : "labels"),
                         "pack them: trainer pack images --csv FILE --target presence,x,y (data/README.md)");
    if (objective == Objective::segments && !data.has_segments())
        throw UsageError(
            fmt::format("the model temporal_transformer learns from sequences and their segments, "
                        "but {} has samples of shape {} and {}",
                        name, to_string(data.sample_shape), describe_wanted(data)),
            "pack them: trainer pack features --sequences (data/README.md)");
    if (objective != Objective::segments && objective != Objective::hidden_input && data.has_segments())
        throw UsageError(name + " has segments, which only the model temporal_transformer tells",
                         "set model.name to temporal_transformer, or give data with labels");
    const bool compared_one_by_one = regression || objective == Objective::classes;
    if (compared_one_by_one && regression != (data.targets > 0))
        throw UsageError(
            fmt::format("train.loss is for {}, but {} has {}", regression ? "targets" : "classes", name,
                        regression ? "labels" : "targets"),
            regression
                ? "set train.loss to auto or cross_entropy, or give data with /targets (data/README.md)"
                : "set train.loss to auto, mse, l1 or huber");
    check_metric("train.checkpoint.best", config.checkpoint.best, name, objective);
    if (config.early_stopping)
        check_metric("train.early_stopping.metric", config.early_stopping->metric, name, objective);
    if (objective == Objective::classes) return;
    const auto of_classes = [&](const char* setting) { refuse(setting, false, name, objective); };
    if (config.label_smoothing > 0) of_classes("train.label_smoothing");
    if (config.class_weights) of_classes("train.class_weights");
    if (config.topk && *config.topk > 0) of_classes("train.topk");
    if (config.confusion) of_classes("train.confusion");
}

std::unique_ptr<Loss> make_training_loss(Device& device, DType compute, const TrainConfig& config,
                                         const DatasetInfo& data, std::span<const double> class_weights) {
    const Objective objective = objective_of(config, data);
    if (objective == Objective::hidden_input) return make_mean_square_loss(device, compute);
    if (const auto location = location_of_run(config))
        return make_location_loss(device, compute, location->loss);
    if (const auto segments = segments_of_run(config))
        return make_segment_loss(device, compute, segments->loss);
    if (objective == Objective::targets) return make_regression_loss(device, compute, kind_of(config.loss));
    return make_softmax_cross_entropy(device, compute, config.label_smoothing, class_weights);
}

std::unique_ptr<Loss> make_evaluation_loss(Device& device, DType compute, const TrainConfig& config,
                                           const DatasetInfo& data) {
    TrainConfig plain = config;
    plain.label_smoothing = 0;
    return make_training_loss(device, compute, plain, data, {});
}

}  // namespace tutti
