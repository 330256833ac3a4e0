// Evaluations during training, and what is decided by them: the best checkpoint, the early end.

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "trainer_impl.hpp"
#include "tutti/base/json_text.hpp"
#include "tutti/base/program_time.hpp"
#include "tutti/base/units.hpp"
#include "tutti/train/asked_metrics.hpp"
#include "tutti/train/evaluation.hpp"
#include "tutti/train/evaluation_json.hpp"

namespace tutti {

EvaluationResult Trainer::Impl::evaluate_weights() {
    std::optional<WeightAverage::InUse> averaged;
    if (average) averaged.emplace(*average);
    std::vector<EvaluationLane> lanes{{graph, *val_lanes[0]->loss, val_lanes[0]->stage}};
    for (std::size_t lane = 1; lane < val_lanes.size(); ++lane)
        lanes.push_back({training.lanes[lane]->graph(), *val_lanes[lane]->loss, val_lanes[lane]->stage});
    return evaluate({.lanes = std::move(lanes),
                     .dataset = *job.val,
                     .loader = *val_loader,
                     .communicator = job.control,
                     .batch_size = training.largest_micro_batch,
                     .seed = config.run.seed,
                     .metrics = asked_metrics(config.train, graph.output_shape().count()),
                     .geography = job.geography,
                     .skipped = &val_unreadable,
                     .log = &job.log,
                     .ends_on_signal = !stopping,
                     .virtual_shards = config.run.deterministic ? config.run.virtual_shards : 0,
                     .device = config.run.deterministic ? &job.device : nullptr});
}

bool Trainer::Impl::report_eval() {
    set_place(RunPlace::Work::evaluation);
    const double begin = seconds_since_start();
    watch.restart();
    training.complete();
    const EvaluationResult result = evaluate_weights();
    if (result.stopped) {
        watch.lap(account.evaluation);
        return false;
    }
    last_eval_step = progress.step;
    // After max_steps an epoch may be unfinished: it counts as the one in progress.
    const std::int64_t epoch = progress.position > 0 ? progress.epoch + 1 : progress.epoch;
    append_eval(result, epoch);
    note_best(result);
    log_eval(result, epoch);
    // Where a run was cut off must not decide when it ends.
    const bool by_epoch = progress.position == 0 && schedule.evaluates_after(progress.epoch);
    if (by_epoch || schedule.evaluates_after_step(progress.step)) note_for_early_stopping(result);
    watch.lap(account.evaluation);
    if (wall_time) wall_time->evaluated(seconds_since_start() - begin);
    return true;
}

void Trainer::Impl::append_eval(const EvaluationResult& result, std::int64_t epoch) {
    nlohmann::ordered_json row{{"type", "eval"},
                               {"epoch", epoch},
                               {"step", progress.step},
                               {"split", "val"},
                               {"loss", result.mean_loss()}};
    add_metrics(row, result);
    if (result.unreadable > 0) row["unreadable"] = result.unreadable;
    row["samples"] = static_cast<std::int64_t>(result.weight);
    last_eval = json_row(row);
    append_row(last_eval);
}

void Trainer::Impl::log_eval(const EvaluationResult& result, std::int64_t epoch) {
    std::string where = fmt::format("epoch {}", epoch);
    if (schedule.evaluates_by_steps()) where += fmt::format(", step {}", progress.step);
    job.log.info(fmt::format("{}: validation loss {}, {}{}", where, format_number(result.mean_loss()),
                             score_text(result), average ? " (averaged weights)" : ""));
    if (result.unreadable > 0)
        job.log.warning(fmt::format("{}: {} not count", where,
                                    counted(result.unreadable, "validation sample could not be read and does",
                                            "validation samples could not be read and do")));
    const auto samples = static_cast<std::int64_t>(result.weight);
    if (const std::string doubt = doubt_about_outputs(result.not_finite, samples); !doubt.empty())
        job.log.warning(fmt::format("{}: validation: {}", where, doubt));
}

void Trainer::Impl::note_best(const EvaluationResult& result) {
    const std::string& metric = config.train.checkpoint.best;
    if (!schedule.best_counts_after(finished_epochs(progress))) return;
    const double value = result.metric(metric);
    if (std::isnan(value) || (progress.has_best && !improves(metric, value, progress.best_metric))) return;
    progress.has_best = true;
    progress.best_metric = value;
    progress.best_step = progress.step;
    best_is_unsaved = true;
}

void Trainer::Impl::note_for_early_stopping(const EvaluationResult& result) {
    if (!config.train.early_stopping) return;
    const EarlyStoppingConfig& stop = *config.train.early_stopping;
    const double value = result.metric(stop.metric);
    const bool better =
        !std::isnan(value) &&
        (!progress.has_stop_metric || improves(stop.metric, value, progress.stop_metric, stop.min_delta));
    if (better) {
        progress.has_stop_metric = true;
        progress.stop_metric = value;
        progress.stale_evals = 0;
        return;
    }
    ++progress.stale_evals;
    if (!stopped_early()) return;
    const std::string where = schedule.evaluates_by_steps() ? fmt::format("step {}", progress.step)
                                                            : fmt::format("epoch {}", progress.epoch);
    const std::string evaluations = counted(progress.stale_evals, "evaluation");
    job.log.info(
        progress.has_stop_metric
            ? fmt::format("early stopping after {}: {} has not improved on {:.6g} by more than {} for {}",
                          where, stop.metric, progress.stop_metric, stop.min_delta, evaluations)
            : fmt::format("early stopping after {}: {} was never a number in {}", where, stop.metric,
                          evaluations));
}

}  // namespace tutti
