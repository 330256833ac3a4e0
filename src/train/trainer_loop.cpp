// The loop over epochs and steps.

#include <fmt/format.h>

#include <cmath>

#include "trainer_impl.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/train/schedule.hpp"

namespace tutti {

std::int64_t Trainer::Impl::steps_per_epoch() const {
    const SamplerOptions options = sampler;
    const std::int64_t listed = samples_per_rank(options) * world;
    const std::int64_t limit = config.data.tail == Tail::pad ? listed : std::min(listed, options.samples);
    const std::int64_t global = config.train.batch_size * world;
    return config.data.drop_last ? limit / global : (limit + global - 1) / global;
}

std::int64_t Trainer::Impl::total_steps() const {
    const std::int64_t all = progress.step + (config.train.epochs - progress.epoch) * steps_per_epoch() -
                             progress.position / (config.train.batch_size * world);
    return config.train.max_steps ? std::min(all, *config.train.max_steps) : all;
}

bool Trainer::Impl::finished() const {
    return progress.epoch >= config.train.epochs ||
           (config.train.max_steps && progress.step >= *config.train.max_steps);
}

void Trainer::Impl::start_epoch() {
    sampler.epoch = progress.epoch;
    std::vector<std::int64_t> order = epoch_order(sampler);
    const auto listed = static_cast<std::int64_t>(order.size());
    windows =
        epoch_windows({.cursor = progress.position,
                       .limit = config.data.tail == Tail::pad ? listed : std::min(listed, sampler.samples),
                       .batch_size = config.train.batch_size,
                       .world_size = world,
                       .rank = rank,
                       .drop_partial = config.data.drop_last});
    next_window = 0;
    loader.start(std::move(order), windows);
}

TrainingResult Trainer::Impl::run() {
    TrainingResult result;
    if (finished() && last_save_step == progress.step) {  // as the resumed checkpoint left it
        result.progress = progress;
        result.last_eval = last_eval;
        result.had_finished = true;
        return result;
    }
    const StopSignal signals;
    report.start(progress.samples);
    watch.restart();
    while (!finished() && !stopping) {
        start_epoch();
        if (windows.empty()) {  // the cursor stood at the end of the epoch
            ++progress.epoch;
            progress.position = 0;
            continue;
        }
        while (next_window < windows.size() && !finished() && !stopping) {
            std::optional<HostBatch> batch;
            Failure failure;
            try {
                batch = loader.next();
            } catch (const Error& error) {
                // This rank goes through the step without samples, so that no peer waits for it.
                failure = {error.code(), error.what()};
            }
            step(batch, failure);
        }
    }
    // A checkpoint holds the last evaluation: one that was written before it is written again.
    bool save_again = last_save_step != progress.step;
    if (!stopping && job.val && last_eval_step != progress.step) {
        report_eval();
        save_again = true;
    }
    if (save_again) save();
    result.code = stopping && !finished() ? ExitCode::requeue : ExitCode::done;
    result.progress = progress;
    result.last_eval = last_eval;
    return result;
}

void Trainer::Impl::step(const std::optional<HostBatch>& batch, Failure failure) {
    const BatchWindow window = windows[next_window++];
    const std::int64_t n = batch ? batch->window.count : 0;
    StepContext context{Phase::train, config.run.seed, progress.epoch, {}};
    if (n > 0) {
        context.positions = batch->positions;
        stage.load(*batch, graph.input(n));
    } else {
        stage.load_nothing();
    }
    watch.lap(account.data);

    const TensorView logits = graph.forward(n, context);
    const LossSums mine = loss->forward(logits, stage.labels(), graph.output_gradient(n));
    // Clocks differ: rank 0's decides when minutes have passed.
    sums.set(mine, failure.code != ExitCode::done, StopSignal::pending() != 0, rank == 0 && minutes_passed());
    Work step_sums = sums.all_reduce(job.control);
    double weight = static_cast<double>(window.end - window.begin);
    if (!loss->weight_is_sample_count()) {
        step_sums.wait();
        weight = sums.loss().weight;
    }
    watch.lap(account.forward);

    loss->backward(stage.labels(), 1.0 / weight, graph.output_gradient(n));
    graph.backward(n, context, [&](std::size_t parameter) { reducer.ready(parameter); });
    watch.lap(account.backward);
    reducer.finish();
    step_sums.wait();
    watch.lap(account.communication);

    if (sums.failed()) agree(job.control, failure, "reading the data");
    if (sums.non_finite()) {
        if (rank == 0 || !std::isfinite(mine.loss))
            failure = {
                ExitCode::failed,
                fmt::format(
                    "step {} (epoch {}): the loss is {}; lower optim.lr or check the data; the weights of "
                    "the last checkpoint are good",
                    progress.step + 1, progress.epoch + 1, mine.loss)};
        agree(job.control, failure, "training");
    }

    const double epoch_part = static_cast<double>(progress.position) / static_cast<double>(sampler.samples);
    const double lr = learning_rate(config.schedule, base_learning_rate(config, world),
                                    static_cast<double>(progress.epoch) + epoch_part);
    optimizer->step(lr, progress.step + 1);
    watch.lap(account.optimizer);

    ++progress.step;
    progress.position = window.end;
    progress.samples += window.end - window.begin;
    progress.loss_sum += sums.loss().loss;
    progress.loss_weight += sums.loss().weight;
    progress.correct += sums.loss().correct;
    stopping = sums.stop();
    report_step();
    after_update(next_window == windows.size());
}

void Trainer::Impl::report_step() {
    if (rank != 0) return;
    const double mean = sums.loss().loss / sums.loss().weight;
    report.update(progress.step, total_steps(), progress.epoch, config.train.epochs, progress.samples, mean);
    if (progress.step % config.train.log_every != 0) return;
    const double epoch_part = static_cast<double>(progress.position) / static_cast<double>(sampler.samples);
    job.directory->append_metric(fmt::format(
        R"({{"type": "step", "step": {}, "epoch": {}, "samples": {}, "loss": {:.17g}, "lr": {:.17g}, "account": {}}})",
        progress.step, progress.epoch, progress.samples, mean,
        learning_rate(config.schedule, base_learning_rate(config, world),
                      static_cast<double>(progress.epoch) + epoch_part),
        account.to_json()));
    account = {};
}

void Trainer::Impl::after_update(bool epoch_ended) {
    if (epoch_ended) {
        if (progress.loss_weight > 0)
            job.log.info(
                fmt::format("epoch {}: training loss {:.4f}, accuracy {}", progress.epoch + 1,
                            progress.loss_sum / progress.loss_weight,
                            accuracy_text({progress.loss_sum, progress.loss_weight, progress.correct})));
        ++progress.epoch;
        progress.position = 0;
        progress.loss_sum = progress.loss_weight = 0;
        progress.correct = 0;
        const std::int64_t every = config.train.eval_every;
        if (job.val && every > 0 && progress.epoch % every == 0) report_eval();
    }
    if (sums.checkpoint_due() || save_scheduled(epoch_ended) || progress.best_step == progress.step) {
        save();
        watch.lap(account.checkpoint);
    }
}

bool Trainer::Impl::save_scheduled(bool epoch_ended) const {
    const Interval& every = config.train.checkpoint.every;
    const std::int64_t count = std::max<std::int64_t>(std::llround(every.count), 1);
    if (every.count <= 0) return false;
    if (every.unit == Interval::Unit::epochs) return epoch_ended && progress.epoch % count == 0;
    return every.unit == Interval::Unit::steps && progress.step % count == 0;
}

bool Trainer::Impl::minutes_passed() const {
    const Interval& every = config.train.checkpoint.every;
    return every.unit == Interval::Unit::minutes && every.count > 0 &&
           std::chrono::steady_clock::now() - last_save_time >=
               std::chrono::duration<double>(every.count * 60);
}

void Trainer::Impl::note_best(double mean_loss, double accuracy) {
    const std::string& metric = config.train.checkpoint.best;
    if (metric.empty()) return;
    const bool higher_is_better = metric == "val/accuracy";
    const double value = higher_is_better ? accuracy : mean_loss;
    const bool better = higher_is_better ? value > progress.best_metric : value < progress.best_metric;
    if (progress.has_best && !better) return;
    progress.has_best = true;
    progress.best_metric = value;
    progress.best_step = progress.step;
}

void Trainer::Impl::report_eval() {
    watch.restart();
    const LossSums result = evaluate({.graph = graph,
                                      .loss = *val_loss,
                                      .stage = *val_stage,
                                      .dataset = *job.val,
                                      .loader = *val_loader,
                                      .communicator = job.control,
                                      .batch_size = config.train.batch_size,
                                      .seed = config.run.seed});
    last_eval_step = progress.step;
    const double mean = result.weight > 0 ? result.loss / result.weight : 0.0;
    const double accuracy = result.weight > 0 ? static_cast<double>(result.correct) / result.weight : 0.0;
    // After max_steps an epoch may be unfinished: it counts as the one in progress.
    const std::int64_t epoch = progress.position > 0 ? progress.epoch + 1 : progress.epoch;
    last_eval = fmt::format(
        R"({{"type": "eval", "epoch": {}, "step": {}, "split": "val", "loss": {:.17g}, "accuracy": {:.17g}, )"
        R"("correct": {}, "samples": {:.0f}}})",
        epoch, progress.step, mean, accuracy, result.correct, result.weight);
    if (rank == 0) job.directory->append_metric(last_eval);
    note_best(mean, accuracy);
    job.log.info(
        fmt::format("epoch {}: validation loss {:.4f}, accuracy {}", epoch, mean, accuracy_text(result)));
    watch.lap(account.evaluation);
}

}  // namespace tutti
