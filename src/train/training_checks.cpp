#include "tutti/train/training_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tutti/base/error.hpp"
#include "tutti/base/shell_word.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/asked_metrics.hpp"
#include "tutti/train/class_weights.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/schedule.hpp"
#include "tutti/train/shard_plan.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

void check_batch(const Config& config, const Dataset& data, int world) {
    const std::int64_t accumulate = config.train.accumulate;
    const std::int64_t samples = data.info().samples;
    // In floating point: the product of what people type may not fit an integer.
    const double shares = static_cast<double>(world) * static_cast<double>(accumulate);
    const double global = static_cast<double>(config.train.batch_size) * shares;
    if (global <= static_cast<double>(samples)) return;
    throw UsageError(
        "train.batch_size " + std::to_string(config.train.batch_size) + " × " + std::to_string(world) +
            (world == 1 ? " rank" : " ranks") +
            (accumulate > 1 ? " × train.accumulate " + std::to_string(accumulate) : "") + " = " +
            fmt::format("{:.0f}", global) + " is larger than the data (" + data.name() + ": " +
            std::to_string(samples) + (samples == 1 ? " sample)" : " samples)"),
        "set train.batch_size to at most " +
            fmt::format("{:.0f}", std::max(std::floor(static_cast<double>(samples) / shares), 1.0)) +
            (static_cast<double>(samples) < shares && accumulate > 1 ? ", train.accumulate to 1" : "") +
            (samples < world
                 ? " and use at most " + std::to_string(samples) + (samples == 1 ? " rank" : " ranks")
                 : ""));
}

/// paths: the files that `data` are of.
void check_samples(const Dataset& data, const std::vector<std::string>& paths) {
    if (data.info().samples == 0)
        throw DataError(
            data.name() + ": there are no samples",
            "see what it holds: trainer inspect " + (paths.size() == 1 ? shell_word(paths.front()) : "FILE"));
}

const char* remedy_for_other_samples(const Shape& train, const Shape& val) {
    if (train.rank() != 2) return "pack both from the same source";
    if (val.rank() != 2) return "pack both with --sequences";
    return train[1] == val[1] ? "pack both with the same --length" : "pack both with the same --features";
}

/// A metric of segments is to decide of data that have none.
void check_segments(const TrainConfig& config, const Dataset& val) {
    const bool best = config.checkpoint.best == "val/atiou";
    if (!best && (!config.early_stopping || config.early_stopping->metric != "val/atiou")) return;
    if (std::ranges::any_of(val.targets(), [](float offset) { return offset >= 0; })) return;
    throw DataError(fmt::format("{} is val/atiou, but no sample of data.val {} has a segment",
                                best ? "train.checkpoint.best" : "train.early_stopping.metric", val.name()),
                    "give validation data with segments, or val/loss");
}

/// Kilometres are to decide, but nobody knows them.
void check_kilometres(const Config& config) {
    if (config.data.has_geography()) return;
    const auto& early = config.train.early_stopping;
    const bool best = config.train.checkpoint.best == "val/km";
    if (!best && (!early || early->metric != "val/km")) return;
    throw UsageError(fmt::format("{} is val/km, but data.latitudes and data.longitudes are not set",
                                 best ? "train.checkpoint.best" : "train.early_stopping.metric"),
                     "name the files that say where on the earth pixels are, or give val/distance");
}

void check_same_samples(const Config& config, const Dataset& train, const Dataset& val) {
    if (!(train.info().sample_shape == val.info().sample_shape))
        throw DataError("data.val " + val.name() + " has samples of shape " +
                            to_string(val.info().sample_shape) + ", data.train " + train.name() + " of " +
                            to_string(train.info().sample_shape),
                        remedy_for_other_samples(train.info().sample_shape, val.info().sample_shape));
    if (const std::string other = other_features(train.info().feature_names, val.info().feature_names,
                                                 "data.train " + train.name() + " has");
        !other.empty())
        throw DataError("data.val " + val.name() + " " + other,
                        "pack both with the same columns in the same order");
    // Neither labels nor targets are read.
    if (config.train.loss == LossChoice::reconstruction) return;
    if (val.info().targets != train.info().targets || val.info().target_kind != train.info().target_kind)
        throw DataError(fmt::format("data.val {} has {}, data.train {} {}", val.name(),
                                    describe_wanted(val.info()), train.name(), describe_wanted(train.info())),
                        "pack both in the same way");
    const auto &names = train.info().target_names, &val_names = val.info().target_names;
    if (!names.empty() && !val_names.empty() && names != val_names)
        throw DataError(fmt::format("data.val {} has the targets {}, data.train {} {}", val.name(),
                                    fmt::join(val_names, ", "), train.name(), fmt::join(names, ", ")),
                        "pack both with the same targets in the same order");
    // The model may be told of classes that the training data do not happen to have.
    if (val.info().classes > std::max(train.info().classes, config.model.classes.value_or(0)))
        throw DataError("data.val " + val.name() + " has " + std::to_string(val.info().classes) +
                            " classes, data.train " + train.name() + " only " +
                            std::to_string(train.info().classes),
                        fmt::format("pack both with the same --class-names, or set model.classes to {}",
                                    val.info().classes));
    if (const std::string other = other_class_name(train.info().class_names, val.info().class_names,
                                                   "in data.train " + train.name());
        !other.empty())
        throw DataError("data.val " + val.name() + ": " + other,
                        "pack both with the same classes in the same order");
}

void check_rates(const Config& config, int world) {
    const auto [base, schedule] = scaled_rates(config, world);
    if (std::isfinite(base) && std::isfinite(schedule.min_lr) && std::isfinite(schedule.warmup_lr)) return;
    const bool by_world = config.train.scale_lr_by_world_size;
    throw UsageError(fmt::format("train.scale_lr_by_{}: the scaled learning rate is beyond all numbers",
                                 by_world ? "world_size" : "batch"),
                     by_world ? "set optim.lr to less" : "set it to more, or the rates to less");
}

/// Of one value a channel its mean is that value: all below would learn nothing. (PyTorch refuses it, too.)
void check_batch_norm(const Config& config, const GraphSpec& model, int world_size) {
    const std::int64_t samples =
        largest_micro_batch(config, world_size) * (config.distributed.sync_batch_norm ? world_size : 1);
    for (const auto& node : model.nodes()) {
        if (!node.layer || node.layer->statistics_count() == 0) continue;
        if (samples * node.shape.count() / node.shape[node.shape.rank() - 1] > 1) continue;
        throw UsageError(
            fmt::format("batch norm of layer {} would see one value of each channel, as {} one sample{}",
                        node.name, config.run.deterministic ? "a virtual shard has" : "train.batch_size is",
                        node.shape.rank() > 1 ? " and its images one pixel" : ""),
            config.run.deterministic ? "set run.virtual_shards to less, or train.batch_size to more"
                                     : "set train.batch_size to 2 or more");
    }
}

}  // namespace

void check_training(const Config& config, const Dataset& train, const Dataset* val, int world_size) {
    check_deterministic(config, world_size);
    check_zero1(config);
    check_samples(train, config.data.train);
    if (val) check_samples(*val, config.data.val);
    check_batch(config, train, world_size);
    check_rates(config, world_size);
    if (val) check_same_samples(config, train, *val);
    check_objective(config.train, train.info(), train.name());
    check_kilometres(config);
    check_geography(config.data, loss_of_run(config.train, train.info()), train.info().targets);
    if (val && objective_of(config.train, train.info()) == Objective::segments)
        check_segments(config.train, *val);
    const GraphSpec model =
        build_model_for(config.model, model_input(train.info(), config.data), train.info());
    check_batch_norm(config, model, world_size);
    if (objective_of(config.train, train.info()) != Objective::classes) return;
    const std::int64_t outputs = model.nodes().back().shape[0];
    check_metrics(config.train, outputs);
    check_class_weights(config.train.class_weights, outputs);
}

}  // namespace tutti
