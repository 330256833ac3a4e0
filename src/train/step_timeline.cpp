#include "tutti/train/step_timeline.hpp"

#include <time.h>

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
    if (goes_on) return late_waits + communication.seconds();
    double done = 0;
    for (const BucketTimes& bucket : buckets) done = std::max(done, bucket.done);
    const double waited = buckets.empty() ? 0 : std::max(done - backward_end() - early_updates, 0.0);
    return late_waits + waited + gather.seconds();
}

double StepRecorder::thread_seconds() {
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

void StepRecorder::begin_step(std::size_t buckets) {
    current_ = 1 - current_;
    begin_ = Clock::now();
    StepTimeline& step = timeline();
    step.clock = std::chrono::duration<double>(begin_.time_since_epoch()).count();
    step.seconds = 0;
    for (MicroBatchTimes& one : step.all_) {
        one.data = one.forward = one.backward = {};
        std::ranges::fill(one.layer_forward, TimeSpan{});
        std::ranges::fill(one.layer_backward, TimeSpan{});
    }
    step.used_ = 0;
    std::ranges::fill(step.parameter_ready, 0.0);
    step.buckets.assign(buckets, {});
    step.communication = step.optimizer = step.gather = {};
    step.early_updates = step.late_waits = step.late_updates = 0;
    step.transfer_cpu = step.off_core = step.pauses = 0;
    step.goes_on = false;
    marks_this_step_ = marks_ != nullptr;
    marked_.clear();
    marked_layers_.clear();
    last_parameters_.clear();
    if (marks_) marks_->clear();
}

void StepRecorder::end_step() {
    if (marks_this_step_ && !marked_.empty()) read_marks();
    timeline().seconds = now();
}

void StepRecorder::read_marks() {
    marks_->wait();
    for (const auto& [time, mark] : marked_) *time = since_begin(marks_->passed(mark));
    for (const auto& [span, begin, end] : marked_layers_) {
        const double from = since_begin(marks_->passed(begin)), to = since_begin(marks_->passed(end));
        // A layer that is computed twice lasts as long as both.
        if (span->end == 0) *span = {from, from};
        span->end += to - from;
    }
    StepTimeline& step = timeline();
    for (const auto& [bucket, parameter] : last_parameters_)
        step.buckets[bucket].ready = step.parameter_ready[parameter];
    for (BucketTimes& bucket : step.buckets) {
        bucket.issued = std::max(bucket.issued, bucket.ready);
        // Not where it is still on the network.
        if (bucket.done > 0) bucket.done = std::max(bucket.done, bucket.issued);
    }
    // Forward ends where the host has the loss, and backward begins there. What comes behind a backward was
    // issued while the device was at it.
    if (step.used_ == 0) return;
    for (std::size_t i = 1; i < step.used_; ++i) {
        MicroBatchTimes& next = step.all_[i];
        for (double* const time : {&next.data.begin, &next.data.end, &next.forward.begin, &next.forward.end,
                                   &next.backward.begin, &next.backward.end})
            *time = std::max(*time, step.all_[i - 1].backward.end);
    }
    step.communication.begin = step.backward_end();
    step.communication.end = std::max(step.communication.end, step.communication.begin);
    if (step.optimizer.seconds() > 0 && step.gather.end == 0) {
        step.optimizer.begin = std::max(step.optimizer.begin, step.communication.end);
        step.optimizer.end = std::max(step.optimizer.end, now());
    }
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
