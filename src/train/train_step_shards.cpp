// Deterministic mode: an update whose micro-batches are virtual shards, added up along their tree.

#include <mutex>

#include "train_step.hpp"

namespace tutti {

void TrainStep::compute_shards(const GlobalBatch& batch, Failure& failure) {
    shard_sums->begin();
    // Who takes the next shard reads its samples, too: the loader gives batches in their order.
    std::mutex turn;
    std::int64_t next = 0;
    const auto take_next = [&](ShardLane& lane) -> std::optional<std::int64_t> {
        const std::lock_guard lock(turn);
        if (next == static_cast<std::int64_t>(batch.count)) return {};
        const std::optional<TensorView> gradients = shard_sums->gradients().next_arena();
        if (!gradients) return {};
        load_shard(lane, failure);
        lane.graph().redirect_gradients(*gradients);
        return next++;
    };
    // The recorder and the account are those of this thread, which has the first shard in any case.
    ShardLane& own = *lanes.front();
    const std::optional<std::int64_t> first = take_next(own);
    const auto compute_own = [&] {
        for (std::optional<std::int64_t> shard = first; shard; shard = take_next(own)) {
            MicroBatchTimes* const times = recorder ? &recorder->begin_micro_batch() : nullptr;
            lap(account.data, times ? &times->data : nullptr);
            compute_shard(own, *shard, batch, times);
        }
    };
    job.device.run_lanes(static_cast<int>(lanes.size()), [&](int number) {
        ShardLane& lane = *lanes[static_cast<std::size_t>(number)];
        try {
            if (number == 0) return compute_own();
            while (const auto shard = take_next(lane)) compute_shard(lane, *shard, batch, nullptr);
        } catch (...) {
            shard_sums->gradients().stop();
            throw;
        }
    });
    // Until the last of the others has ended.
    lap(account.backward, nullptr);
}

void TrainStep::load_shard(ShardLane& lane, Failure& failure) {
    const std::optional<HostBatch> batch = next_batch(lane.stage(), failure);
    if (batch)
        lane.load(*batch);
    else
        lane.load_nothing();
}

void TrainStep::compute_shard(ShardLane& lane, std::int64_t shard, const GlobalBatch& batch,
                              MicroBatchTimes* times) {
    const bool first = &lane == lanes.front().get();
    StepRecorder* const records = first ? recorder : nullptr;
    StepContext context{Phase::train, config.run.seed, progress.epoch, lane.positions()};
    context.defers_tracking = true;
    const std::int64_t n = lane.samples();
    Graph& of_lane = lane.graph();

    if (records) records->compute_begins();
    const TensorView logits = of_lane.forward(n, context);
    const LossSums sums_of_shard = lane.loss().forward(logits, lane.wanted(), of_lane.output_gradient(n));
    shard_sums->take(shard, sums_of_shard, of_lane.batch_statistics());
    if (first) lap(account.forward, times ? &times->forward : nullptr);

    const double weight = weight_is_known() ? static_cast<double>(batch.end - batch.begin) : 1.0;
    lane.loss().backward(lane.wanted(), 1.0 / weight, of_lane.output_gradient(n));
    of_lane.backward(n, context, [&](std::size_t parameter) {
        shard_sums->take_gradient(shard, parameter, lane.arena_ops());
        if (records) records->parameter_ready(parameter);
    });
    shard_sums->take_gradients(shard, lane.arena_ops());
    if (first) lap(account.backward, times ? &times->backward : nullptr);
    if (records) records->compute_ends();
    if (!first) return;
    // While a GPU computes.
    lane.stage().fetch_ahead(loader);
    lap(account.data, nullptr);
}

LossSums TrainStep::sum_shards(const Failure& failure, const ClockDecisions& time) {
    const LossSums mine = shard_sums->losses_of_rank();
    updated = 0;
    in_graph = false;
    set_sums(mine, failure, time);
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
