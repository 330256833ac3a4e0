#include "tutti/train/step_replay.hpp"

#include "step_sums.hpp"
#include "timed_wait.hpp"
#include "tutti/train/across_steps.hpp"
#include "tutti/train/reducer.hpp"

namespace tutti {

struct StepReplay::Impl {
    Impl(const Graph& graph, StepProfile given, std::size_t micro_batches_per_step, Communicator& gradients,
         Communicator& control_of, std::vector<Bucket> buckets)
        : profile(std::move(given)),
          micro_batches(micro_batches_per_step),
          control(control_of),
          parameters(layers_of(graph, profile.layer_forward)),
          update_per_element(profile.optimizer / static_cast<double>(graph.gradient_arena().count())),
          recorder(graph, micro_batches_per_step),
          reducer(gradients, graph.gradient_arena(), std::move(buckets)) {
        reducer.record(&recorder);
    }

    /// `work` happens in this span.
    template <class Work>
    void during(TimeSpan& span, const Work& work) {
        span.begin = recorder.now();
        work();
        span.end = recorder.now();
    }
    /// What the step before has left for these parameters.
    void catch_up(std::size_t first, std::size_t last) {
        reducer.poll();
        if (reducer.is_finished(first, last)) return;
        StepTimeline& timeline = recorder.timeline();
        const bool counts = !timeline.goes_on;
        double lap = recorder.now();
        const auto charge = [&](double& to) {
            const double now = recorder.now();
            if (counts) to += now - lap;
            lap = now;
        };
        reducer.finish_for(first, last, [&](std::size_t bucket) {
            charge(timeline.late_waits);
            pause.wait(static_cast<double>(reducer.buckets()[bucket].count) * update_per_element);
            charge(timeline.late_updates);
        });
    }
    void forward() {
        for (std::size_t layer = 0; layer < parameters.size(); ++layer) {
            catch_up(parameters[layer].first, parameters[layer].last);
            recorder.forward_begins(layer);
            pause.wait(profile.layer_forward[layer]);
            recorder.forward_ends(layer);
        }
        pause.wait(profile.loss_forward);
    }
    void backward(bool last) {
        pause.wait(profile.loss_backward);
        for (std::size_t layer = parameters.size(); layer-- > 0;) {
            recorder.backward_begins(layer);
            pause.wait(profile.layer_backward[layer]);
            recorder.backward_ends(layer);
            if (!last) continue;
            for (std::size_t p = parameters[layer].first; p < parameters[layer].last; ++p) reducer.ready(p);
            reducer.poll();
        }
    }
    void step() {
        recorder.begin_step(reducer.buckets().size());
        // A step that lost its processor for long must not shorten the next ones.
        pause.forget();
        Work sums_work;
        for (std::size_t i = 0; i < micro_batches; ++i) {
            const bool last = i + 1 == micro_batches;
            MicroBatchTimes& times = recorder.begin_micro_batch();
            during(times.data, [&] { pause.wait(profile.data); });
            during(times.forward, [&] { forward(); });
            if (last) sums_work = sums.all_reduce(control);
            during(times.backward, [&] { backward(last); });
        }
        during(recorder.timeline().communication, [&] {
            if (!across) reducer.finish();
            sums_work.wait();
        });
        recorder.timeline().goes_on = across;
        if (!across) during(recorder.timeline().optimizer, [&] { pause.wait(profile.optimizer); });
        recorder.end_step();
    }

    const StepProfile profile;
    const std::size_t micro_batches;
    Communicator& control;
    const std::vector<LayerForward> parameters;  // by layer
    const double update_per_element;
    bool across = false;
    StepRecorder recorder;
    Reducer reducer;
    TimedWait pause;
    StepSums sums;
};

StepReplay::StepReplay(const Graph& graph, StepProfile profile, std::size_t micro_batches_per_step,
                       Communicator& gradients, Communicator& control, std::vector<Bucket> buckets) {
    const std::size_t layers = graph.report().size();
    if (profile.layer_forward.size() != layers || profile.layer_backward.size() != layers)
        throw DataError("the profile has " + std::to_string(profile.layer_forward.size()) +
                            " layers, the model has " + std::to_string(layers),
                        "replay a profile of the same model");
    impl_ = std::make_unique<Impl>(graph, std::move(profile), micro_batches_per_step, gradients, control,
                                   std::move(buckets));
}

StepReplay::~StepReplay() = default;

void StepReplay::set_buckets(std::vector<Bucket> buckets, std::vector<std::size_t> order) {
    impl_->reducer.replan(std::move(buckets), std::move(order));
}

void StepReplay::spread_across_steps(bool spread) {
    impl_->across = spread;
}

void StepReplay::run(std::span<StepTimeline> steps) {
    if (impl_->across) impl_->step();
    for (std::size_t i = 0; i < steps.size(); ++i) {
        impl_->step();
        if (i > 0) steps[i - 1] = impl_->recorder.previous();
    }
    if (impl_->across) impl_->reducer.finish();
    if (!steps.empty()) steps.back() = impl_->recorder.timeline();
}

}  // namespace tutti
