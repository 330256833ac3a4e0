// Deterministic mode: an update whose micro-batches are virtual shards, added up along their tree.

#include "train_step.hpp"
#include "tutti/base/stop_signal.hpp"

namespace tutti {

void TrainStep::shard(const GlobalBatch& batch, Failure& failure) {
    MicroBatchTimes* const times = recorder ? &recorder->begin_micro_batch() : nullptr;
    StepContext context{Phase::train, config.run.seed, progress.epoch, {}};
    context.defers_tracking = true;
    const std::int64_t n = load_micro_batch(context, failure);
    lap(account.data, times ? &times->data : nullptr);

    if (recorder) recorder->compute_begins();
    const TensorView logits = graph.forward(n, context);
    const LossSums sums_of_shard = loss->forward(logits, stage.labels(), graph.output_gradient(n));
    lap(account.forward, times ? &times->forward : nullptr);

    const double weight = weight_is_known() ? static_cast<double>(batch.end - batch.begin) : 1.0;
    loss->backward(stage.labels(), 1.0 / weight, graph.output_gradient(n));
    graph.backward(n, context, [this](std::size_t parameter) {
        if (recorder) recorder->parameter_ready(parameter);
    });
    shard_sums->take(sums_of_shard);
    lap(account.backward, times ? &times->backward : nullptr);
    if (recorder) recorder->compute_ends();
}

LossSums TrainStep::sum_shards(const Failure& failure, const TimeNews& time) {
    const LossSums mine = shard_sums->losses_of_rank();
    updated = 0;
    in_graph = false;
    sums.set(mine, failure.code != ExitCode::done, StopSignal::pending() != 0, time);
    sums.set_skipped(unreadable.take_count());
    if (recorder) {
        recorder->bucket_ready(0, graph.parameters().size() - 1);
        recorder->bucket_issued(0);
    }
    try {
        sums.sum_along_tree(job.control);
        shard_sums->sum_statistics(job.control);
        shard_sums->sum_gradients(job.gradients);
    } catch (const PeerError& error) {
        throw PeerError(std::string("sums of the virtual shards: ") + error.what());
    }
    if (recorder) recorder->bucket_done(0);
    graph.track_statistics({Phase::train, config.run.seed, progress.epoch, {}});
    return mine;
}

}  // namespace tutti
