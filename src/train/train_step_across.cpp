// The schedule across steps: what an update leaves on the network, and how the next one's forward goes on
// with it.

#include "train_step.hpp"

namespace tutti {

std::string TrainStep::obstacle_across_steps(const TrainingJob& job) {
    const Config& config = job.config;
    if (job.gradients.size() == 1) return "there is one rank, which sends nothing";
    if (job.device.kind() != "cpu") return "device is not the CPU";
    if (config.run.deterministic)
        return "run.deterministic is true, which sums gradients as a whole, after backward";
    if (shards_optimizer(config, job.gradients.size())) return "distributed.strategy is zero1";
    if (config.train.accumulate > 1)
        return "train.accumulate is " + std::to_string(config.train.accumulate) +
               ": backward follows on forward before anything is sent";
    if (config.optim.clip_norm) return "optim.clip_norm needs all gradients before the first update";
    if (config.train.nan_policy == NanPolicy::skip)
        return "train.nan_policy is skip, which looks at all gradients before the first update";
    // Small sums within forward would queue behind the buckets.
    if (config.distributed.sync_batch_norm) return "distributed.sync_batch_norm sends within forward";
    return {};
}

void TrainStep::spread_across_steps(bool spread) {
    complete();
    across_ = spread;
}

void TrainStep::replan(std::vector<Bucket> buckets, std::vector<std::size_t> order) {
    complete();
    reducer.replan(std::move(buckets), std::move(order));
}

bool TrainStep::defer(double lr, Work& step_sums) {
    if (!across_) return false;
    // They went out before backward. The update must be certain to take place.
    step_sums.wait();
    if (!update_is_certain()) return false;
    accumulator.finish();
    deferred_ = {lr, progress.step + 1};
    if (recorder) recorder->timeline().goes_on = true;
    return true;
}

void TrainStep::update_bucket(const Deferred& update, std::size_t bucket) {
    // With the gap behind it.
    const std::vector<Bucket>& buckets = reducer.buckets();
    Optimizer::Range range{.offset = buckets[bucket].offset};
    if (bucket + 1 < buckets.size()) range.count = buckets[bucket + 1].offset - range.offset;
    optimizer->step(update.lr, update.step, range);
    // Nothing on the CPU, where alone updates are deferred (obstacle_across_steps) and products read the
    // parameters themselves. Elsewhere it would be the whole copy for each bucket.
    graph.parameters_changed();
}

void TrainStep::catch_up(std::size_t first, std::size_t last, double& until_now) {
    if (!deferred_) return;
    const Deferred update = *deferred_;
    // Only what holds up the next step: what is completed after a step is not part of its time line.
    StepTimeline* const timeline =
        recorder && !recorder->timeline().goes_on ? &recorder->timeline() : nullptr;
    const auto charge = [&](double& to, double StepTimeline::*recorded) {
        const double before = to;
        watch.lap(to);
        if (timeline) timeline->*recorded += to - before;
    };
    try {
        reducer.poll();
        if (reducer.is_finished(first, last)) return;
        watch.lap(until_now);
        reducer.finish_for(first, last, [&](std::size_t bucket) {
            charge(account.communication, &StepTimeline::late_waits);
            update_bucket(update, bucket);
            charge(account.optimizer, &StepTimeline::late_updates);
        });
    } catch (const PeerError& error) {
        throw PeerError("step " + std::to_string(update.step) + ", " + error.what());
    }
    if (reducer.pending()) return;
    deferred_.reset();
    if (!average) return;
    average->update(update.step);
    charge(account.optimizer, &StepTimeline::late_updates);
}

void TrainStep::complete() {
    catch_up(0, graph.parameters().size(), account.communication);
}

}  // namespace tutti
