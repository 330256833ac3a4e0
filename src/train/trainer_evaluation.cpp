// Evaluations during training, and what is decided by them: the best checkpoint, the early end.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "json_number.hpp"
#include "trainer_impl.hpp"
#include "tutti/base/program_time.hpp"
#include "tutti/train/objective.hpp"

namespace tutti {
namespace {

/// The members of an "eval" row that depend on the config.
std::string more_metrics(const EvaluationResult& result) {
    std::string text;
    if (result.topk > 0) text += fmt::format(R"("top{}": {:.17g}, )", result.topk, result.topk_accuracy());
    if (result.unreadable > 0) text += fmt::format(R"("unreadable": {}, )", result.unreadable);
    if (result.targets > 0 || result.loss_only) return text;
    text += fmt::format(R"("balanced_accuracy": {:.17g}, )", result.balanced_accuracy());
    if (const auto detection = result.detection())
        text += fmt::format(R"("pod": {:.17g}, "far": {:.17g}, )", detection->probability,
                            detection->false_alarm_ratio);
    if (result.scores)
        text +=
            fmt::format(R"("auprc": {}, "roc_auc": {}, )", json_number(result.scores->average_precision()),
                        json_number(result.scores->roc_auc()));
    if (result.confusion.empty()) return text;
    text += R"("confusion": [)";
    const std::size_t classes = result.of_label.size();
    for (std::size_t label = 0; label < classes; ++label) {
        const auto row = std::span(result.confusion).subspan(label * classes, classes);
        text += fmt::format("{}[{}]", label == 0 ? "" : ", ", fmt::join(row, ", "));
    }
    return text + "], ";
}

/// Of an object with a number value(i) for each key.
template <class Keys, class Value>
std::string members(const Keys& keys, const Value& value) {
    std::string text;
    for (std::size_t i = 0; i < keys.size(); ++i)
        text += fmt::format(R"({}"{}": {})", i == 0 ? "" : ", ", keys[i], json_number(value(i)));
    return text;
}

/// Of places, where it is known where on the earth they are.
std::string earth_metrics(const EvaluationResult& result) {
    if (!result.earth) return {};
    const std::string within = members(earth_radii, [&](std::size_t i) { return result.within_km(i); });
    return fmt::format(R"("km": {}, "median_km": {}, "within_km": {{{}}}, "km_samples": {}, )",
                       json_number(result.km()), json_number(result.earth->median), within,
                       result.earth->samples);
}

/// Of a locator.
std::string place_metrics(const EvaluationResult& result) {
    const std::string within = members(location_radii, [&](std::size_t i) { return result.within(i); });
    return fmt::format(
        R"("heatmap_loss": {}, "presence_loss": {}, "distance": {}, "median_distance": {}, "within": {{{}}}, {})",
        json_number(result.heat_map_loss()), json_number(result.presence_loss()),
        json_number(result.distance()), json_number(result.median_distance), within, earth_metrics(result));
}

/// Of a model that tells segments.
std::string segment_metrics(const EvaluationResult& result) {
    const std::string precision =
        members(segment_ious, [&](std::size_t i) { return result.segment_precision(i); });
    return fmt::format(R"("atiou": {}, "precision": {{{}}}, "with_segments": {}, "predicted": {}, )",
                       json_number(result.atiou()), precision, result.segments->having,
                       result.segments->told);
}

/// The members of an "eval" row between its loss and the number of samples.
std::string metrics(const EvaluationResult& result) {
    if (result.loss_only) return more_metrics(result);
    if (result.segments) return segment_metrics(result) + more_metrics(result);
    if (result.targets > 0)
        return fmt::format(
            R"("mae": {}, "rmse": {}, "distance": {}, {}{}{})", json_number(result.mae()),
            json_number(result.rmse()), json_number(result.distance()),
            result.earth ? fmt::format(R"("median_distance": {}, )", json_number(result.median_distance))
                         : "",
            earth_metrics(result), more_metrics(result));
    return fmt::format(R"({}"accuracy": {:.17g}, {}"correct": {}, )",
                       result.location ? place_metrics(result) : "", result.accuracy(), more_metrics(result),
                       result.correct);
}

}  // namespace

bool Trainer::Impl::report_eval() {
    set_place(RunPlace::Work::evaluation);
    const double begin = seconds_since_start();
    watch.restart();
    training.complete();
    EvaluationResult result;
    {
        std::optional<WeightAverage::InUse> averaged;
        if (average) averaged.emplace(*average);
        std::vector<EvaluationLane> lanes{{graph, *val_lanes[0]->loss, val_lanes[0]->stage}};
        for (std::size_t lane = 1; lane < val_lanes.size(); ++lane)
            lanes.push_back({training.lanes[lane]->graph(), *val_lanes[lane]->loss, val_lanes[lane]->stage});
        result = evaluate({.lanes = std::move(lanes),
                           .dataset = *job.val,
                           .loader = *val_loader,
                           .communicator = job.control,
                           .batch_size = training.largest_micro_batch,
                           .seed = config.run.seed,
                           .topk = topk_of(config.train, graph.output_shape().count()),
                           .confusion = config.train.confusion,
                           .ranking = ranking_of(config.train, graph.output_shape().count()),
                           .loss_only = config.train.loss == LossChoice::reconstruction,
                           .location = location_of_run(config.train),
                           .segments = segments_of_run(config.train),
                           .geography = job.geography,
                           .skipped = &val_unreadable,
                           .log = &job.log,
                           .ends_on_signal = !stopping,
                           .virtual_shards = config.run.deterministic ? config.run.virtual_shards : 0,
                           .device = config.run.deterministic ? &job.device : nullptr});
    }
    if (result.stopped) {
        watch.lap(account.evaluation);
        return false;
    }
    last_eval_step = progress.step;
    // After max_steps an epoch may be unfinished: it counts as the one in progress.
    const std::int64_t epoch = progress.position > 0 ? progress.epoch + 1 : progress.epoch;
    last_eval = fmt::format(
        R"({{"type": "eval", "epoch": {}, "step": {}, "split": "val", "loss": {}, {}"samples": {:.0f}}})",
        epoch, progress.step, json_number(result.mean_loss()), metrics(result), result.weight);
    append_row(last_eval);
    note_best(result);
    job.log.info(fmt::format("epoch {}: validation loss {:.4f}, {}{}", epoch, result.mean_loss(),
                             score_text(result), average ? " (averaged weights)" : ""));
    if (result.unreadable > 0)
        job.log.warning(fmt::format("epoch {}: {} validation samples could not be read and do not count",
                                    epoch, result.unreadable));
    // Where a run was cut off must not decide when it ends.
    if (progress.position == 0 && evaluates_after(progress.epoch)) note_for_early_stopping(result);
    watch.lap(account.evaluation);
    if (wall_time) wall_time->evaluated(seconds_since_start() - begin);
    return true;
}

void Trainer::Impl::note_best(const EvaluationResult& result) {
    const std::string& metric = config.train.checkpoint.best;
    if (metric.empty() || finished_epochs(progress) < config.train.checkpoint.best_from) return;
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
    if (stopped_early() && !progress.has_stop_metric)
        job.log.info(fmt::format("early stopping after epoch {}: {} was never a number in {} {}",
                                 progress.epoch, stop.metric, progress.stale_evals,
                                 progress.stale_evals == 1 ? "evaluation" : "evaluations"));
    else if (stopped_early())
        job.log.info(fmt::format(
            "early stopping after epoch {}: {} has not improved on {:.6g} by more than {} for {} {}",
            progress.epoch, stop.metric, progress.stop_metric, stop.min_delta, progress.stale_evals,
            progress.stale_evals == 1 ? "evaluation" : "evaluations"));
}

}  // namespace tutti
