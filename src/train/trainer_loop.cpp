// The loop over epochs and updates, and what happens between updates.

#include <fmt/format.h>

#include <cmath>

#include "epoch_row.hpp"
#include "memory_report.hpp"
#include "ready_order.hpp"
#include "trainer_impl.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/base/units.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/schedule.hpp"
#include "tutti/train/weight_average.hpp"

namespace tutti {

std::int64_t Trainer::Impl::total_steps() const {
    const std::int64_t per_epoch = training.steps_per_epoch();
    return schedule.total_steps(progress.epoch, progress.step,
                                per_epoch - training.steps_from(progress.position), per_epoch);
}

bool Trainer::Impl::stopped_early() const {
    return config.train.early_stopping && progress.stale_evals >= config.train.early_stopping->patience;
}

bool Trainer::Impl::finished() const {
    return schedule.is_over(progress.epoch, progress.step) || stopped_early();
}

void Trainer::Impl::set_place(RunPlace::Work work) {
    const bool comes = work == RunPlace::Work::before_step || work == RunPlace::Work::step;
    // The step that ends an epoch is of that, and not of the next.
    const bool next_epoch = comes || progress.position > 0;
    place = {work, progress.step + (comes ? 1 : 0), progress.epoch + (next_epoch ? 1 : 0)};
}

bool Trainer::Impl::is_evaluated() const {
    return !job.val || last_eval_step == progress.step;
}

bool Trainer::Impl::has_nothing_left() const {
    return finished() && last_save_samples == progress.samples && is_evaluated();
}

std::string Trainer::Impl::to_go_on() const {
    if (stopped_early())
        return fmt::format("train.early_stopping=null, or with patience: {} in it",
                           std::max(progress.stale_evals, config.train.early_stopping->patience) + 1);
    const std::string epochs = fmt::format("train.epochs={}", progress.epoch + 1);
    if (!schedule.reaches_max_steps(progress.step)) return epochs;
    const std::string steps = fmt::format("train.max_steps={}", progress.step + training.steps_per_epoch());
    return progress.epoch >= config.train.epochs ? steps + " " + epochs : steps;
}

void Trainer::Impl::warn_of_rates() {
    const DoneBefore done{
        progress.step, static_cast<double>(progress.epoch) + static_cast<double>(progress.position) /
                                                                 static_cast<double>(training.epoch_limit())};
    const std::int64_t per_epoch = training.steps_per_epoch();
    for (const std::string& doubt :
         {doubt_about_rates(config, world), doubt_about_warmup(config, world, per_epoch, done),
          doubt_about_evaluations(config.train, job.val != nullptr),
          config.train.ema && progress.step == 0
              ? doubt_about_average(*config.train.ema, updates_of_run(config.train, per_epoch, done))
              : std::string()})
        if (!doubt.empty()) job.log.warning(doubt);
}

void Trainer::Impl::warn_of_dropped_batches() {
    const std::int64_t all = training.epoch_limit(), dropped = training.dropped(all);
    if (dropped < config.train.batch_size * world) return;
    job.log.warning(fmt::format(
        "data.drop_last leaves out {} of {} samples at the end of each epoch, which are whole batches: with "
        "run.deterministic an update of fewer than {} samples is left out; set data.drop_last: false, or "
        "train.accumulate to less",
        dropped, all, training.global_batch()));
}

void Trainer::Impl::run_epochs() {
    while (!finished() && !stopping) {
        training.start_epoch();
        epoch_began = std::chrono::steady_clock::now();
        if (training.windows.empty()) {  // the cursor stood at the end of the epoch
            if (progress.position > 0)   // after a stop there, or with drop_last on other ranks
                finish_epoch();
            else
                ++progress.epoch;
            continue;
        }
        while (training.epoch_has_more() && !finished() && !stopping) step();
    }
}

TrainingResult Trainer::Impl::run() {
    TrainingResult result;
    set_place(RunPlace::Work::before_step);
    if (has_nothing_left()) {
        prune_left_over();
        result.progress = progress;
        result.last_eval = last_eval;
        result.had_finished = true;
        if (stopped_early()) job.log.info("early stopping had ended it");
        result.to_go_on = to_go_on();
        return result;
    }
    warn_of_rates();
    warn_of_dropped_batches();
    choose_buckets();
    measure_order();
    start_trace();
    report.start(progress.samples);
    watch.restart();
    // That of an epoch's last update is of its end.
    if (evaluation_is_due() && !finished() && progress.position > 0 &&
        training.steps_from(progress.position) > 0) {
        evaluate_within_epoch();
        // The checkpoint that the run has gone on from, which may be another run's, knows nothing of it.
        if (!stopping && (best_is_unsaved || finished())) save();
    }
    run_epochs();
    set_place(RunPlace::Work::after_step);
    training.complete();
    if (trace) write_trace();
    if (tuner) job.log.info("buckets: the run ended before it had measured enough steps to choose");
    const bool time_is_over = stopping && training.sums.time_is_over();
    if (!is_evaluated()) final_evaluation();
    if (last_save_samples != progress.samples) save();
    set_place(RunPlace::Work::after_step);
    append_row(memory_row(job.control, progress.step));
    agree(job.control, unwritten, "writing the metrics");
    const bool complete = finished() && is_evaluated();
    result.code = stopping && !complete ? ExitCode::requeue : ExitCode::done;
    result.time_is_over = time_is_over;
    result.progress = progress;
    result.last_eval = last_eval;
    return result;
}

void Trainer::Impl::final_evaluation() {
    // A signal of a run that has made its last update leaves the time for the evaluation; a limit does not,
    // nor does a signal that has stopped one.
    if (stopping && (!finished() || training.sums.time_is_over() || !training.sums.stop())) return;
    // Lest all be lost where that time is too short.
    if (stopping && last_save_samples != progress.samples) save();
    // A signal in the update that reaches train.max_steps and the end of an epoch: no resume would end that.
    const bool epoch_is_over = finished_epochs(progress) > progress.epoch;
    if (epoch_is_over && !end_epoch()) return;
    if (is_evaluated() || report_eval())
        last_save_samples = -1;  // a checkpoint holds the last evaluation: it is written again
    else
        stopping = true;
}

void Trainer::Impl::step() {
    set_place(RunPlace::Work::step);
    if (tuner) tuner->before_update();
    const UpdateReport update = make_update();
    stopping = training.sums.stop();
    if (world > 1 && !training.shard_sums && !ready_order_checked) check_ready_order();
    if (trace) trace_step();
    if (tuner) tune_buckets(update);
    if (order_measurement && order_measurement->after_update(update)) {
        order_measurement.reset();
        record_if_needed();
    }
    if (!update.skipped) {
        report_step(update);
        verify_weights();
    }
    after_update(update.skipped);
    // After that, lest a checkpoint that is due be lost. A run that ends with it ends as it would.
    if (training.skipped_series.is_too_long() && !finished()) end_after_skipped();
}

void Trainer::Impl::check_ready_order() {
    ready_order_checked = true;
    const std::string difference = ready_order_difference(job.control, graph, training.reducer.ready_order());
    if (!difference.empty())
        job.log.warning(difference + "; the sums are right, but buckets go out later than planned");
}

void Trainer::Impl::verify_weights() {
    const std::int64_t every = config.distributed.verify_every;
    if (world == 1 || every == 0 || progress.step % every != 0) return;
    training.complete();
    weight_check.verify(progress.step);
    watch.lap(account.communication);
}

void Trainer::Impl::report_step(const UpdateReport& update) {
    if (rank != 0) return;
    const double mean = training.sums.loss().loss / training.sums.loss().weight;
    report.update(progress.step, total_steps(), progress.epoch, config.train.epochs, progress.samples, mean);
    if (progress.step % config.train.log_every != 0) return;
    std::string more;
    if (config.optim.clip_norm) more += fmt::format(R"("grad_norm": {:.17g}, )", update.gradient_norm);
    if (config.train.nan_policy == NanPolicy::skip)
        more += fmt::format(R"("skipped": {}, )", progress.skipped);
    if (config.data.on_error == OnError::skip)
        more += fmt::format(R"("unreadable": {}, )", progress.unreadable);
    // Of schedule.gamma above 1 it may grow beyond all numbers, which JSON does not know.
    const std::string lr = std::isfinite(update.lr) ? fmt::format("{:.17g}", update.lr) : "null";
    append_row(fmt::format(
        R"({{"type": "step", "step": {}, "epoch": {}, "samples": {}, "loss": {:.17g}, "lr": {}, {}"account": {}}})",
        progress.step, progress.epoch, progress.samples, mean, lr, more, account.to_json()));
    account = {};
}

void Trainer::Impl::append_row(const std::string& row) {
    append(&RunDirectory::append_metric, row);
}

void Trainer::Impl::append(void (RunDirectory::*to)(const std::string&), const std::string& row) {
    if (rank != 0 || unwritten.code != ExitCode::done) return;
    try {
        (job.directory->*to)(row);
    } catch (const Error& error) {
        unwritten = {error.code(), error.what()};
    }
}

void Trainer::Impl::after_update(bool skipped) {
    // Who asks to stop may not give the time for an evaluation: it is left to the resume, which finds the
    // cursor at the end of the epoch, or that the step's is missing.
    const bool due = evaluation_is_due();
    if (!training.epoch_has_more()) {
        if (!stopping || !(due || schedule.evaluates_at_end_of(progress.epoch + 1)))
            return finish_epoch(skipped);
    } else if (due && !stopping) {
        evaluate_within_epoch();
    }
    save_if_due(false, skipped);
}

bool Trainer::Impl::evaluation_is_due() const {
    return schedule.evaluates_after_step(progress.step) && last_eval_step != progress.step;
}

void Trainer::Impl::evaluate_within_epoch() {
    const auto begin = std::chrono::steady_clock::now();
    if (!report_eval()) stopping = true;  // it is left to the resume
    // The epoch's row is of its training.
    epoch_began += std::chrono::steady_clock::now() - begin;
}

void Trainer::Impl::finish_epoch(bool skipped) {
    if (end_epoch() && !stopping) save_if_due(true, skipped);
}

void Trainer::Impl::save_if_due(bool epoch_ended, bool skipped) {
    const bool scheduled = (epoch_ended && schedule.saves_after_epoch(progress.epoch)) ||
                           (!skipped && schedule.saves_after_step(progress.step));
    if (training.sums.checkpoint_due() || scheduled || best_is_unsaved) {
        save();
        watch.lap(account.checkpoint);
    }
}

void Trainer::Impl::report_epoch() {
    if (progress.loss_weight > 0)
        job.log.info(fmt::format(
            "epoch {}: training loss {}{}", progress.epoch + 1,
            format_number(progress.loss_sum / progress.loss_weight),
            !has_accuracy(objective_of(config.train, job.train.info()))
                ? fmt::format(" ({})", counted(std::llround(progress.loss_weight), "sample"))
                : ", accuracy " +
                      accuracy_text({progress.loss_sum, progress.loss_weight, progress.correct})));
    if (progress.unreadable > 0)
        job.log.warning(fmt::format("epoch {}: {} of {} samples could not be read and were skipped",
                                    progress.epoch + 1, progress.unreadable, training.epoch_limit()));
    using std::chrono::duration;
    using Seconds = duration<double>;
    const double weight = progress.loss_weight;
    EpochSummary summary{.epoch = progress.epoch + 1,
                         .step = progress.step,
                         .samples = progress.samples,
                         .loss = progress.loss_sum / weight,
                         .accuracy = {},
                         .skipped = progress.skipped,
                         .unreadable = progress.unreadable,
                         .seconds = Seconds(std::chrono::steady_clock::now() - epoch_began).count(),
                         .time = Seconds(std::chrono::system_clock::now().time_since_epoch()).count()};
    if (has_accuracy(objective_of(config.train, job.train.info())) && weight > 0)
        summary.accuracy = static_cast<double>(progress.correct) / weight;
    append(&RunDirectory::append_epoch, epoch_row(summary));
}

bool Trainer::Impl::end_epoch() {
    report_epoch();
    const Progress before = progress;
    ++progress.epoch;
    progress.unreadable = 0;
    progress.position = 0;
    progress.loss_sum = progress.loss_weight = 0;
    progress.correct = 0;
    if ((schedule.evaluates_after(progress.epoch) || evaluation_is_due()) && !report_eval()) {
        // Left to the resume, as after a signal in the epoch's last update.
        progress = before;
        stopping = true;
        return false;
    }
    // A checkpoint of the epoch's last update, from which the run was resumed, does not know that it ended.
    last_save_samples = -1;
    return true;
}

std::int64_t Trainer::Impl::finished_epochs(const Progress& at) const {
    return at.epoch + (at.position > 0 && training.steps_from(at.position) == 0 ? 1 : 0);
}

}  // namespace tutti
