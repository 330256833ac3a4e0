#include "tutti/train/step_timeline.hpp"

#include <algorithm>

namespace tutti {

StepTimeline::StepTimeline(const Graph& graph, std::size_t micro_batches_per_step)
    : parameter_ready(graph.parameters().size()) {
    const std::size_t layers = graph.report().size();
    MicroBatchTimes one;
    one.layer_forward.resize(layers);
    one.layer_backward.resize(layers);
    all_.resize(micro_batches_per_step, one);
    // No plan has more buckets than there are parameters; a vector never gives its memory back.
    buckets.resize(graph.parameters().size());
}

double StepTimeline::exposed_communication() const {
    if (buckets.empty()) return 0;
    return std::max(buckets.back().done - backward_end() - early_updates, 0.0) + gather.seconds();
}

void StepRecorder::begin_step(std::size_t buckets) {
    begin_ = Clock::now();
    timeline_.clock = std::chrono::duration<double>(begin_.time_since_epoch()).count();
    timeline_.seconds = 0;
    for (MicroBatchTimes& one : timeline_.all_) {
        one.data = one.forward = one.backward = {};
        std::ranges::fill(one.layer_forward, TimeSpan{});
        std::ranges::fill(one.layer_backward, TimeSpan{});
    }
    timeline_.used_ = 0;
    std::ranges::fill(timeline_.parameter_ready, 0.0);
    timeline_.buckets.assign(buckets, {});
    timeline_.communication = timeline_.optimizer = timeline_.gather = {};
    timeline_.early_updates = 0;
}

void StepRecorder::forward_took_turns(std::size_t first, std::size_t last) {
    std::vector<TimeSpan>& spans = current().layer_forward;
    double time = spans[first].begin;
    for (std::size_t layer = first; layer <= last; ++layer) {
        const double seconds = spans[layer].seconds();
        spans[layer] = {time, time + seconds};
        time += seconds;
    }
}

}  // namespace tutti
