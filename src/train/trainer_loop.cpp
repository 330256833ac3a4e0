// The loop over epochs and updates, and what happens between updates.

#include <fmt/format.h>

#include <cmath>

#include "memory_report.hpp"
#include "trainer_impl.hpp"
#include "tutti/base/stop_signal.hpp"

namespace tutti {

std::int64_t Trainer::Impl::global_batch() const {
    return config.train.batch_size * world * config.train.accumulate;
}

std::int64_t Trainer::Impl::epoch_limit() const {
    const std::int64_t listed = samples_per_rank(sampler) * world;
    return config.data.tail == Tail::pad ? listed : std::min(listed, sampler.samples);
}

std::int64_t Trainer::Impl::steps_per_epoch() const {
    const std::int64_t limit = epoch_limit(), global = global_batch();
    return config.data.drop_last ? limit / global : (limit + global - 1) / global;
}

std::int64_t Trainer::Impl::total_steps() const {
    const std::int64_t all = progress.step + (config.train.epochs - progress.epoch) * steps_per_epoch() -
                             progress.position / global_batch();
    return config.train.max_steps ? std::min(all, *config.train.max_steps) : all;
}

bool Trainer::Impl::stopped_early() const {
    return config.train.early_stopping && progress.stale_evals >= config.train.early_stopping->patience;
}

bool Trainer::Impl::finished() const {
    return progress.epoch >= config.train.epochs || stopped_early() ||
           (config.train.max_steps && progress.step >= *config.train.max_steps);
}

void Trainer::Impl::start_epoch() {
    sampler.epoch = progress.epoch;
    std::int64_t limit = epoch_limit();
    // An update of fewer samples than a global batch is left out; so its micro-batches are, too.
    if (config.data.drop_last) limit -= std::max<std::int64_t>(limit - progress.position, 0) % global_batch();
    windows = epoch_windows({.cursor = progress.position,
                             .limit = limit,
                             .batch_size = config.train.batch_size,
                             .world_size = world,
                             .rank = rank});
    next_window = 0;
    loader.start(epoch_order(sampler), windows);
}

TrainingResult Trainer::Impl::run() {
    TrainingResult result;
    const auto evaluated = [&] { return !job.val || last_eval_step == progress.step; };
    // As the resumed checkpoint left it.
    if (finished() && last_save_samples == progress.samples && evaluated()) {
        result.progress = progress;
        result.last_eval = last_eval;
        result.had_finished = true;
        if (stopped_early())
            job.log.info(
                "early stopping had ended it; with a larger train.early_stopping.patience, or "
                "train.early_stopping=null, it goes on");
        return result;
    }
    report.start(progress.samples);
    watch.restart();
    while (!finished() && !stopping) {
        start_epoch();
        if (windows.empty()) {          // the cursor stood at the end of the epoch
            if (progress.position > 0)  // with drop_last, after a resume on other ranks
                finish_epoch();
            else
                ++progress.epoch;
            continue;
        }
        while (next_window < windows.size() && !finished() && !stopping) step();
    }
    // A checkpoint holds the last evaluation: one that was written before it is written again.
    bool save_again = last_save_samples != progress.samples;
    if ((!stopping || finished()) && !evaluated()) {
        report_eval();
        save_again = true;
    }
    if (save_again) save();
    const std::string memory = memory_row(job.control, progress.step);
    if (rank == 0) job.directory->append_metric(memory);
    result.code = stopping && !finished() ? ExitCode::requeue : ExitCode::done;
    result.progress = progress;
    result.last_eval = last_eval;
    return result;
}

void Trainer::Impl::report_step(const UpdateReport& update) {
    if (rank != 0) return;
    const double mean = sums.loss().loss / sums.loss().weight;
    report.update(progress.step, total_steps(), progress.epoch, config.train.epochs, progress.samples, mean);
    if (progress.step % config.train.log_every != 0) return;
    std::string more;
    if (config.optim.clip_norm) more += fmt::format(R"("grad_norm": {:.17g}, )", update.gradient_norm);
    if (config.train.nan_policy == NanPolicy::skip)
        more += fmt::format(R"("skipped": {}, )", progress.skipped);
    job.directory->append_metric(fmt::format(
        R"({{"type": "step", "step": {}, "epoch": {}, "samples": {}, "loss": {:.17g}, "lr": {:.17g}, {}"account": {}}})",
        progress.step, progress.epoch, progress.samples, mean, update.lr, more, account.to_json()));
    account = {};
}

void Trainer::Impl::after_update(bool skipped) {
    if (next_window == windows.size()) return finish_epoch(skipped);
    save_if_due(false, skipped);
}

void Trainer::Impl::finish_epoch(bool skipped) {
    end_epoch();
    save_if_due(true, skipped);
}

void Trainer::Impl::save_if_due(bool epoch_ended, bool skipped) {
    if (sums.checkpoint_due() || save_scheduled(epoch_ended, skipped) || best_is_unsaved) {
        save();
        watch.lap(account.checkpoint);
    }
}

void Trainer::Impl::end_epoch() {
    if (progress.loss_weight > 0)
        job.log.info(fmt::format("epoch {}: training loss {:.4f}, accuracy {}", progress.epoch + 1,
                                 progress.loss_sum / progress.loss_weight,
                                 accuracy_text({progress.loss_sum, progress.loss_weight, progress.correct})));
    ++progress.epoch;
    progress.position = 0;
    progress.loss_sum = progress.loss_weight = 0;
    progress.correct = 0;
    const std::int64_t every = config.train.eval_every;
    if (job.val && every > 0 && progress.epoch % every == 0) report_eval();
}

bool Trainer::Impl::save_scheduled(bool epoch_ended, bool skipped) const {
    const Interval& every = config.train.checkpoint.every;
    const std::int64_t count = std::max<std::int64_t>(std::llround(every.count), 1);
    if (every.count <= 0) return false;
    if (every.unit == Interval::Unit::epochs) return epoch_ended && progress.epoch % count == 0;
    return every.unit == Interval::Unit::steps && !skipped && progress.step % count == 0;
}

bool Trainer::Impl::minutes_passed() const {
    const Interval& every = config.train.checkpoint.every;
    return every.unit == Interval::Unit::minutes && every.count > 0 &&
           std::chrono::steady_clock::now() - last_save_time >=
               std::chrono::duration<double>(every.count * 60);
}

}  // namespace tutti
