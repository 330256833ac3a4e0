#include "training_messages.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "model_outputs.hpp"
#include "tutti/base/idle_settings.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/units.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/input/label_summary.hpp"
#include "tutti/train/normalisation.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/precision.hpp"

namespace tutti {
namespace {

/// shown: what people call what the row has under `key`.
std::string number_text(const char* key, const char* shown, const nlohmann::json& row, std::int64_t samples) {
    const auto& value = row.at(key);
    return value.is_number() ? fmt::format("test {} {} ({})", shown, format_number(value.get<double>()),
                                           counted(samples, "sample"))
                             : fmt::format("test {} not finite ({})", shown, counted(samples, "sample"));
}

void warn_of_data(Log& log, const TrainingInputs& inputs, const Config& config) {
    const DatasetInfo& info = inputs.train->info();
    if (const std::string doubt = doubt_about_layout(info); !doubt.empty()) log.warning("data: " + doubt);
    if (!config.data.normalize) {
        if (!info.other_normalisation.empty()) log.warning("data: " + info.other_normalisation);
        if (inputs.val && !inputs.val->info().other_normalisation.empty())
            log.warning("data.val: " + inputs.val->info().other_normalisation);
    }
    DatasetInfo seen = info;
    if (config.data.normalize)
        seen.mean.assign(config.data.normalize->mean.begin(), config.data.normalize->mean.end());
    if (const std::string doubt = doubt_about_units(seen); !doubt.empty()) log.warning("data: " + doubt);
    if (objective_of(config.train, info) == Objective::classes)
        if (const std::string doubt = doubt_about_labels(info, inputs.labels.first_class_empty);
            !doubt.empty())
            log.warning("data: " + doubt + "; " + remedy_for_labels(info));
    if (!inputs.val || config.data.normalize) return;
    const std::string name = "data.val " + inputs.val->name();
    tell_of_normalisation(log, name, config.data, normalisation_of(config.data, info), inputs.val->info());
}

}  // namespace

void log_training(Log& log, Launcher launcher, const TrainingInputs& inputs, const Config& config) {
    const std::size_t ranks = inputs.places.size();
    const DatasetInfo& info = inputs.train->info();
    log.info(fmt::format("tutti " TUTTI_VERSION ": {} {} ({}), {}, run directory {}", ranks,
                         ranks == 1 ? "rank" : "ranks", to_string(launcher), inputs.device->description(),
                         config.run.dir));
    log.info(fmt::format("data: {}, {} {}, {}", inputs.train->name(), counted(info.samples, "sample"),
                         to_string(info.sample_shape), describe_wanted(info)));
    for (const std::string& idle : idle_settings(config)) log.warning(idle);
    if (config.run.autotune && inputs.device->kind() == "cpu")
        log.warning("run.autotune has no effect on the CPU");
    warn_of_data(log, inputs, config);
    if (inputs.train->reads_alone() && loader_workers(config.data) > 0)
        log.info(
            "data: this HDF5 library is not thread-safe, so batches of chunked data are read between steps; "
            "data in one piece, as trainer pack writes them, are not read through it");
    if (!config.data.transforms.empty()) {
        std::vector<std::string> transforms;
        for (const TransformSpec& spec : config.data.transforms) transforms.push_back(to_text(spec));
        log.info(fmt::format("transforms: {}", fmt::join(transforms, ", ")));
    }
}

void log_end(Log& log, const Config& config, const TrainingResult& result, bool same_command) {
    const Progress& progress = result.progress;
    if (result.had_finished)
        log.info(fmt::format("{} is finished: {}, {}. To train again: run.resume=never; to train longer: {}",
                             config.run.dir, counted(progress.step, "step"), counted(progress.epoch, "epoch"),
                             result.to_go_on));
    else if (result.code == ExitCode::requeue)
        log.warning(fmt::format(
            "stopped by {} after step {}; the checkpoint is saved, {}",
            result.time_is_over          ? fmt::format("run.walltime, {} s,", *config.run.walltime)
            : StopSignal::pending() != 0 ? fmt::format("signal {}", StopSignal::pending())
                                         : "a signal to another rank",
            progress.step, same_command ? "the same command goes on" : "run.resume=auto goes on from it"));
    else
        log.info(fmt::format(
            "finished after {}, {}{}", counted(progress.step, "step"), counted(progress.samples, "sample"),
            progress.skipped > 0 ? fmt::format("; {} {} skipped (log.txt says why)", progress.skipped,
                                               progress.skipped == 1 ? "update was" : "updates were")
                                 : ""));
    const CheckpointConfig& checkpoint = config.train.checkpoint;
    const auto& stopping = config.train.early_stopping;
    if (result.code == ExitCode::done && !checkpoint.best.empty() && !progress.has_best && stopping &&
        progress.stale_evals >= stopping->patience && progress.epoch < checkpoint.best_from)
        log.warning(fmt::format(
            "train.checkpoint.best: no checkpoint is kept as the best, as train.early_stopping ended the run "
            "after epoch {}, before train.checkpoint.best_from, {}; lower that, or give more patience",
            progress.epoch, checkpoint.best_from));
    else if (result.code == ExitCode::done && !checkpoint.best.empty() && !progress.has_best)
        log.warning(fmt::format(
            "train.checkpoint.best: no checkpoint is kept as the best, as no evaluation{} gave a finite {}",
            checkpoint.best_from > 0
                ? fmt::format(" after {} or more", counted(checkpoint.best_from, "epoch"))
                : "",
            checkpoint.best));
}

void print_result(Log& log, const std::string& last_eval) {
    if (last_eval.empty()) return;
    const auto row = nlohmann::json::parse(last_eval);
    const auto samples = row.at("samples").get<std::int64_t>();
    const std::string text =
        row.contains("accuracy")
            ? fmt::format("test accuracy {:.4f} ({} of {})", row.at("accuracy").get<double>(),
                          row.at("correct").get<std::int64_t>(), samples)
        : row.contains("atiou") && !row.at("atiou").is_null() ? number_text("atiou", "AtIoU", row, samples)
        : row.contains("rmse")                                ? number_text("rmse", "rmse", row, samples)
                                                              : number_text("loss", "loss", row, samples);
    fmt::print("{}\n", text);
    std::fflush(stdout);
    log.note(text);
}

}  // namespace tutti
