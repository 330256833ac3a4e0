#include "tutti/train/step_replay.hpp"

#include <array>

#include "timed_wait.hpp"
#include "tutti/train/reducer.hpp"

namespace tutti {
namespace {

/// The parameters of each layer as [begin, end) in arena order: backward goes through the layers from the
/// last to the first, and so does the arena.
std::vector<std::pair<std::size_t, std::size_t>> parameters_by_layer(const Graph& graph) {
    const auto layers = graph.report();
    std::vector<std::pair<std::size_t, std::size_t>> ranges(layers.size());
    std::size_t next = 0;
    for (std::size_t layer = layers.size(); layer-- > 0;) {
        const std::size_t begin = next;
        for (std::int64_t left = layers[layer].parameters; left > 0; ++next)
            left -= graph.parameters()[next].count;
        ranges[layer] = {begin, next};
    }
    return ranges;
}

}  // namespace

struct StepReplay::Impl {
    Impl(const Graph& graph, StepProfile given, std::size_t micro_batches_per_step, Communicator& gradients,
         Communicator& control_of, std::vector<Bucket> buckets)
        : profile(std::move(given)),
          micro_batches(micro_batches_per_step),
          control(control_of),
          parameters(parameters_by_layer(graph)),
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
    void forward() {
        for (std::size_t layer = 0; layer < parameters.size(); ++layer) {
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
            for (std::size_t p = parameters[layer].first; p < parameters[layer].second; ++p) reducer.ready(p);
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
            if (last) sums_work = control.all_reduce(view_of(std::span(sums)), ReduceOp::sum);
            during(times.backward, [&] { backward(last); });
        }
        during(recorder.timeline().communication, [&] {
            reducer.finish();
            sums_work.wait();
        });
        during(recorder.timeline().optimizer, [&] { pause.wait(profile.optimizer); });
        recorder.end_step();
    }

    const StepProfile profile;
    const std::size_t micro_batches;
    Communicator& control;
    const std::vector<std::pair<std::size_t, std::size_t>> parameters;
    StepRecorder recorder;
    Reducer reducer;
    TimedWait pause;
    std::array<double, 7> sums{};  // as large as the step sums of a training step
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

void StepReplay::set_buckets(std::vector<Bucket> buckets) {
    impl_->reducer.replan(std::move(buckets));
}

void StepReplay::run(std::span<StepTimeline> steps) {
    for (StepTimeline& step : steps) {
        impl_->step();
        step = impl_->recorder.timeline();
    }
}

}  // namespace tutti
