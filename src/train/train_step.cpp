// One update: micro-batches, the sums over all ranks, the new weights.

#include "train_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include "tutti/base/stop_signal.hpp"
#include "tutti/train/schedule.hpp"

namespace tutti {

void TrainStep::lap(double& seconds, TimeSpan* span) {
    // What passed between two updates is not part of either's time line.
    if (span) span->begin = std::max(recorder->since_begin(watch.last()), 0.0);
    watch.lap(seconds);
    if (span) span->end = recorder->since_begin(watch.last());
}

void TrainStep::record(StepRecorder* to, bool inside) {
    recorder = to;
    times_inside = to && inside;
    if (to) to->use(job.device.make_marks());
    reducer.record(to);
}

GlobalBatch TrainStep::next_global_batch() const {
    GlobalBatch batch{.first = next_window};
    batch.count = std::min(static_cast<std::size_t>(micro_batches), windows.size() - next_window);
    batch.begin = windows[batch.first].begin;
    batch.end = windows[batch.first + batch.count - 1].end;
    return batch;
}

double TrainStep::rate_of(const GlobalBatch& batch) const {
    const ScaledRates rates = scaled_rates(config, world);
    return learning_rate(rates.schedule, rates.base,
                         epoch_of_update(progress.epoch, batch.begin, global_batch(), steps_per_epoch()),
                         config.train.epochs);
}

UpdateReport TrainStep::update(const ClockDecisions& time, Failure failure) {
    if (recorder) recorder->begin_step(reducer.buckets().size());
    graph.observe(recorder);
    job.device.begin_step();
    copy_buffers(Buffers::now);
    const GlobalBatch batch = next_global_batch();

    LossSums mine;
    Work step_sums;
    if (shard_sums)
        compute_shards(batch, failure);
    else
        for (std::size_t i = 0; i < batch.count; ++i) micro_batch(batch, i, mine, failure, time, step_sums);
    UpdateReport report;
    report.lr = rate_of(batch);
    report.samples = batch.end - batch.begin;
    if (shard_sums)
        mine = sum_shards(failure, time);
    else
        reduce(report.lr, step_sums);
    // Weights that only the labels tell were not known in the backwards of several micro-batches.
    if (!weight_is_known() && (shard_sums || batch.count > 1) && sums.loss().weight > 0)
        scale_gradients(1.0 / sums.loss().weight);
    lap(account.communication, recorder ? &recorder->timeline().communication : nullptr);
    if (recorder) recorder->timeline().communication.begin = recorder->timeline().backward_end();
    if (sums.failed()) agree(job.control, failure, "reading the data");
    if (sums.skipped() > 0) note_unreadable();
    use_gradients(batch, mine, report);
    // With shards that are gathered after the update the optimizer has its span already.
    const bool has_span = shards && !report.skipped && !all_updated();
    lap(account.optimizer, recorder && !has_span ? &recorder->timeline().optimizer : nullptr);
    // Evaluations run the same graph.
    graph.observe(nullptr);
    if (recorder) {
        recorder->end_step();
        // Where it waited for a device, that was at the update last.
        watch.lap(account.optimizer);
    }
    progress.position = batch.end;
    progress.samples += report.samples;
    return report;
}

void TrainStep::use_gradients(const GlobalBatch& batch, const LossSums& mine, UpdateReport& report) {
    const bool skips = config.train.nan_policy == NanPolicy::skip;
    if (config.optim.clip_norm || skips) report.gradient_norm = gradient_norm();
    std::string problem = not_finite(batch, mine, report.gradient_norm);
    const bool finite = problem.empty();
    if (finite && sums.loss().weight == 0) problem = "none of its samples could be read";
    report.skipped = !problem.empty();
    if (!report.skipped) {
        if (!deferred_) update_weights(report);
        skipped_series.end();
        ++progress.step;
        progress.loss_sum += sums.loss().loss;
        progress.loss_weight += sums.loss().weight;
        progress.correct += sums.loss().correct;
        return;
    }
    ++progress.skipped;
    const SkippedSeries::Update skipped{progress.epoch, batch.begin, batch.end, problem};
    job.log.warning(fmt::format("{}: {}; the update is skipped ({} until now)", place_of(skipped), problem,
                                progress.skipped));
    if (!finite) skipped_series.add(skipped);
    if (skipped_series.is_too_long()) keep_failed_step(batch, mine, report.gradient_norm);
    // It is no step: batch norm's running statistics, which followed in forward, forget it, too.
    copy_buffers(Buffers::before);
}

void TrainStep::copy_buffers(Buffers from) {
    if (kept_buffers.size() == 0) return;
    const TensorView bytes = graph.buffer_arena();
    const DType type = graph.gradient_arena().dtype;
    const TensorView now{bytes.data, type, {bytes.count() / static_cast<std::int64_t>(size_of(type))}},
        before = kept_buffers.view(0, type, now.shape);
    if (from == Buffers::now)
        arena_ops.copy(now, before);
    else
        arena_ops.copy(before, now);
}

std::optional<HostBatch> TrainStep::next_batch(BatchStage& from, Failure& failure) {
    ++next_window;
    // A constant inside, and not a variable that is assigned to inside and returned behind: of such a one g++
    // 12 leaves out the initialisation, so that it holds anything where the call throws.
    try {
        const std::optional<HostBatch> batch = from.next(loader);
        if (batch) unreadable.add(batch->skipped);
        return batch;
    } catch (const Error& error) {
        // This rank goes through the step without samples, so that no peer waits for it. What is told is the
        // first failure: later ones may follow from it.
        if (failure.code == ExitCode::done) failure = reading_failure(error);
        return std::nullopt;
    }
}

std::int64_t TrainStep::load_micro_batch(StepContext& context, Failure& failure) {
    const std::optional<HostBatch> batch = next_batch(stage, failure);
    const std::int64_t n = batch ? batch->window.count : 0;
    if (n > 0) {
        context.positions = batch->positions;
        stage.load(*batch, graph.input(n));
    } else {
        stage.load_nothing();
    }
    return n;
}

void TrainStep::note_unreadable() {
    unreadable.tell(job.control, job.log);
    progress.unreadable += sums.skipped();
    SkippedSamples::check_share(progress.unreadable, epoch_limit(), job.train.name());
}

void TrainStep::micro_batch(const GlobalBatch& batch, std::size_t index, LossSums& mine, Failure& failure,
                            const ClockDecisions& time, Work& step_sums) {
    const bool last = index + 1 == batch.count;
    MicroBatchTimes* const times = recorder ? &recorder->begin_micro_batch() : nullptr;
    StepContext context = training_context();
    const std::int64_t n = load_micro_batch(context, failure);
    lap(account.data, times ? &times->data : nullptr);

    const auto forward_begin = watch.last();
    if (recorder) recorder->compute_begins();
    const bool graphed = graph_micro_batch(batch, n, context, mine);
    if (!graphed) {
        const TensorView logits = graph.forward(n, context);
        mine += loss->forward(logits, stage.wanted(), graph.output_gradient(n));
    }
    if (last) {
        set_sums(mine, failure, time);
        step_graph.tell(sums);
        step_sums = sums.all_reduce(job.control);
    }
    // A recorded step has all its samples on every rank.
    const double weight = graphed ? 0 : weight_for_backward(batch, last, step_sums);
    // A rank without samples runs no layers.
    catch_up(0, graph.parameters().size(), account.forward);
    lap(account.forward, times ? &times->forward : nullptr);
    // Parts of it may be charged to the update before.
    if (times) times->forward.begin = recorder->since_begin(forward_begin);

    if (graphed) {
        step_graph.wait_for_transfers();
        lap(account.backward, times ? &times->backward : nullptr);
        return;
    }
    backward(n, context, weight, last);
    lap(account.backward, times ? &times->backward : nullptr);
    if (recorder) recorder->compute_ends();
    stage.fetch_ahead(loader);
    lap(account.data, nullptr);
}

StepContext TrainStep::training_context() {
    StepContext context{Phase::train, config.run.seed, progress.epoch, {}};
    if (world > 1) context.statistics = &batch_statistics;
    context.sync_batch_statistics = config.distributed.sync_batch_norm;
    return context;
}

void TrainStep::set_sums(const LossSums& mine, const Failure& failure, const ClockDecisions& time) {
    sums.set(mine, failure.code != ExitCode::done, StopSignal::pending() != 0, time);
    sums.set_skipped(unreadable.take_count());
}

double TrainStep::weight_for_backward(const GlobalBatch& batch, bool last, Work& step_sums) {
    if (weight_is_known()) return static_cast<double>(batch.end - batch.begin);
    if (last) step_sums.wait();
    return batch.count == 1 && sums.loss().weight > 0 ? sums.loss().weight : 1.0;
}

void TrainStep::backward(std::int64_t n, const StepContext& context, double weight, bool last) {
    loss->backward(stage.wanted(), 1.0 / weight, graph.output_gradient(n));
    if (last) {
        graph.backward(n, context, [&](std::size_t parameter) {
            accumulator.add_to(parameter);
            reducer.ready(parameter);
        });
    } else {
        graph.backward(n, context, {});
        accumulator.take();
    }
}

bool TrainStep::graph_micro_batch(const GlobalBatch& batch, std::int64_t n, const StepContext& context,
                                  LossSums& mine) {
    // The last batch of an epoch may be smaller, on this rank or another, and is scaled otherwise. A rank
    // alone may lack samples that it could not read.
    const bool whole = batch.count == 1 && batch.end - batch.begin == global_batch() && !times_inside &&
                       loss->weight_is_sample_count();
    in_graph = step_graph.takes(whole, n == config.train.batch_size,
                                {graph.input(n).data, stage.wanted().data, reducer.plans()});
    if (!in_graph) return false;
    if (recorder) recorder->leave_out_marks();
    const double scale = 1.0 / static_cast<double>(batch.end - batch.begin);
    in_graph = step_graph.run(
        {context.epoch, context.positions, scale},
        {.forward =
             [&] {
                 loss->issue_forward(graph.forward(n, context), stage.wanted(), graph.output_gradient(n));
             },
         .backward =
             [&] {
                 loss->backward(stage.wanted(), scale, graph.output_gradient(n));
                 graph.backward(n, context, [&](std::size_t parameter) { reducer.ready(parameter); });
                 reducer.finish();
             },
         .forget = [&] { reducer.forget_step(); },
         .meanwhile = [&] { stage.fetch_ahead(loader); }},
        loss->sums());
    if (in_graph) mine += step_graph.loss();
    return in_graph;
}

bool TrainStep::may_update_bucket_by_bucket(const TrainingJob& job) {
    // Nothing that needs all gradients at once, or that changes them after the reduction.
    const Config& config = job.config;
    return job.gradients.size() > 1 && !shards_optimizer(config, job.gradients.size()) &&
           config.train.accumulate == 1 && !config.optim.clip_norm &&
           config.train.nan_policy != NanPolicy::skip;
}

bool TrainStep::may_update_in_reduction(const TrainingJob& job) {
    // As above, and the same on every rank.
    const Config& config = job.config;
    if (!shards_optimizer(config, job.gradients.size()) || !job.gradients.reduces_then_gathers_by_piece() ||
        config.train.accumulate != 1 || config.optim.clip_norm || config.train.nan_policy == NanPolicy::skip)
        return false;
    // The pieces are too small for several threads. Each rank has its own number of them, by the cores that
    // it was given, but it is one collective for all or for none.
    std::int64_t threads = job.device.threads();
    job.control.all_reduce(view_of(std::span(&threads, 1)), ReduceOp::max).wait();
    return threads == 1;
}

bool TrainStep::update_in_reduction(double lr, Work& step_sums) {
    if (!updates_in_reduction) return false;
    // They went out before backward, and say the same on every rank.
    step_sums.wait();
    if (!update_is_certain()) return false;
    using Clock = std::chrono::steady_clock;
    updates_ = {};
    // It may outlive this call, in transfers that an error leaves.
    reducer.update(graph.parameter_arena(), [this, lr](const ArenaRange& range) {
        const auto begin = Clock::now();
        optimizer->step(lr, progress.step + 1, {range.offset, range.count});
        updates_ += Clock::now() - begin;
    });
    accumulator.finish();
    updated = graph.parameter_arena().count();
    lap(account.communication, nullptr);
    const double seconds = std::chrono::duration<double>(updates_).count();
    account.communication -= seconds;
    account.optimizer += seconds;
    if (recorder) recorder->timeline().early_updates = seconds;
    return true;
}

void TrainStep::reduce(double lr, Work& step_sums) {
    updated = 0;
    if (defer(lr, step_sums) || update_in_reduction(lr, step_sums)) return;
    if (in_graph) {
        // The buckets have their sums.
    } else if (!across_ && !reducer.buckets().empty() && std::ranges::is_sorted(reducer.issue_order()) &&
               may_update_bucket_by_bucket(job) && step_sums.test() && update_is_certain()) {
        // The sums went out before backward and are there, unless a peer is late.
        // While later buckets are on the network, whose transfers go on within the update. The last one's is
        // left to the end of the step.
        const std::int64_t last = reducer.buckets().back().offset;
        reducer.finish([&](std::size_t number) {
            const Bucket& bucket = reducer.buckets()[number];
            if (bucket.offset == last) return;
            lap(account.communication, nullptr);
            const double begin = recorder ? recorder->now() : 0;
            optimizer->step(lr, progress.step + 1, {updated, bucket.offset + bucket.count - updated});
            if (recorder) recorder->timeline().early_updates += recorder->now() - begin;
            updated = bucket.offset + bucket.count;
            lap(account.optimizer, nullptr);
        });
    } else {
        reducer.finish();
    }
    accumulator.finish();
    step_sums.wait();
    step_graph.hear(sums);
}

void TrainStep::scale_gradients(double factor) {
    if (shards) return shards->scale_gradients(factor);
    arena_ops.scale(factor, graph.gradient_arena());
}

double TrainStep::gradient_norm() {
    if (shards) return std::sqrt(shards->sum_of_squares(job.control));
    const TensorView sum = norm_memory.view(0, DType::f64, {1});
    arena_ops.sum_of_squares(graph.gradient_arena(), sum);
    double squares = 0;
    job.device.copy_to_host(&squares, sum);
    return std::sqrt(squares);
}

void TrainStep::update_weights(const UpdateReport& report) {
    // torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), at most 1.
    if (config.optim.clip_norm) {
        const double factor = *config.optim.clip_norm / (report.gradient_norm + 1e-6);
        if (factor < 1) scale_gradients(factor);
    }
    if (!all_updated()) optimizer->step(report.lr, progress.step + 1, {.offset = updated});
    if (shards && !all_updated()) {
        lap(account.optimizer, recorder ? &recorder->timeline().optimizer : nullptr);
        shards->gather_parameters();
        lap(account.communication, recorder ? &recorder->timeline().gather : nullptr);
    }
    graph.parameters_changed();
    if (average) average->update(progress.step + 1);
}

}  // namespace tutti
