#include "tutti/train/step_bench.hpp"

#include "order_measurement.hpp"
#include "train_step.hpp"

namespace tutti {

struct StepBench::Impl {
    Impl(const TrainingJob& job, bool inside)
        : training(job), recorder(training.graph, static_cast<std::size_t>(training.micro_batches)) {
        training.record(&recorder, inside);
        training.whole_updates = job.config.data.drop_last;  // asked for so that all steps are of one kind
    }
    void next_epoch_if_needed() {
        while (!training.epoch_has_more()) {
            // The first epoch has not begun yet.
            if (began) ++training.progress.epoch;
            began = true;
            training.progress.position = 0;
            training.start_epoch();
        }
    }

    UpdateReport step() {
        next_epoch_if_needed();
        training.watch.restart();
        return training.update();
    }

    TrainStep training;
    StepRecorder recorder;
    bool began = false;
};

StepBench::StepBench(const TrainingJob& job, bool inside) {
    tell_errors(job.gradients, [&] {
        together(job.control, "building the model", [&] { impl_ = std::make_unique<Impl>(job, inside); });
        impl_->training.initial_weights();
    });
}

StepBench::~StepBench() = default;

const Graph& StepBench::graph() const {
    return impl_->training.graph;
}

const std::vector<Bucket>& StepBench::buckets() const {
    return impl_->training.reducer.buckets();
}

void StepBench::set_buckets(std::vector<Bucket> buckets, std::vector<std::size_t> order) {
    impl_->training.replan(std::move(buckets), std::move(order));
}

bool StepBench::spreads_across_steps() const {
    return impl_->training.spreads_across_steps();
}

void StepBench::spread_across_steps(bool spread) {
    impl_->training.spread_across_steps(spread);
}

StepBench::UpdateBytes StepBench::update_bytes() const {
    const TrainStep& training = impl_->training;
    const TensorView weights = graph().parameter_arena(), gradients = graph().gradient_arena();
    const std::int64_t elements =
        training.shards ? total_count(training.shards->plan().owned) : weights.count();
    const auto bytes = [elements](const TensorView& arena) {
        return elements * static_cast<std::int64_t>(size_of(arena.dtype));
    };
    std::int64_t state = 0;
    for (const Optimizer::State& one : training.optimizer->state())
        state += static_cast<std::int64_t>(one.arena.bytes());
    return {2 * bytes(weights) + bytes(gradients) + 2 * state, bytes(weights) + bytes(gradients) + state,
            weights.dtype};
}

std::int64_t StepBench::graph_steps() const {
    return impl_->training.step_graph.steps();
}

const std::string& StepBench::why_no_graph() const {
    return impl_->training.step_graph.reason();
}

void StepBench::leave_out_processor_time() {
    impl_->recorder.leave_out_processor_time();
}

StepTimeline StepBench::make_timeline() const {
    return {graph(), static_cast<std::size_t>(impl_->training.micro_batches)};
}

void StepBench::choose_schedule() {
    if (!has_an_order(impl_->training)) return;
    OrderMeasurement measurement(impl_->training, impl_->recorder);
    while (!measurement.after_update(impl_->step())) {
    }
}

std::size_t StepBench::run(std::span<StepTimeline> steps) {
    // Across steps the first of a row has nothing to wait for: it is not counted.
    const std::size_t before = spreads_across_steps() ? 1 : 0;
    if (before > 0) impl_->step();
    for (std::size_t i = 0; i < steps.size(); ++i) {
        impl_->step();
        // What is on the network when a step ends is done at the end of the next forward.
        if (i > 0) steps[i - 1] = impl_->recorder.previous();
    }
    impl_->training.complete();
    if (!steps.empty()) steps.back() = impl_->recorder.timeline();
    return before + steps.size();
}

}  // namespace tutti
