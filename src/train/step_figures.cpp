#include "tutti/train/step_figures.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "tutti/base/spread.hpp"

namespace tutti {
namespace {

/// Length of the union of the buckets' [issued, done], without the pauses in them.
double time_under_way(const StepTimeline& step) {
    std::vector<BucketTimes> buckets = step.buckets;
    std::ranges::sort(buckets, {}, &BucketTimes::issued);
    double total = 0, until = 0;
    for (const BucketTimes& bucket : buckets) {
        const double from = std::max(bucket.issued, until);
        if (bucket.done > from) total += bucket.done - from;
        until = std::max(until, bucket.done);
    }
    return total - step.pauses;
}

/// Calls `visit` with every number of a step.
template <class Visit>
void for_numbers(StepFigures& step, const Visit& visit) {
    for (double* number : {&step.step, &step.data, &step.forward, &step.backward, &step.optimizer,
                           &step.communication, &step.exposed, &step.transfer_cpu, &step.off_core})
        visit(*number);
    for (BucketTimes& bucket : step.buckets)
        for (double* number : {&bucket.ready, &bucket.issued, &bucket.done}) visit(*number);
}

}  // namespace

StepFigures figures_of(const StepTimeline& step) {
    StepFigures figures;
    figures.step = step.seconds;
    for (const MicroBatchTimes& micro : step.micro_batches()) {
        figures.data += micro.data.seconds();
        figures.forward += micro.forward.seconds();
        figures.backward += micro.backward.seconds();
    }
    // What a forward does for the step before is no forward.
    figures.forward -= step.late_waits + step.late_updates;
    figures.optimizer = step.early_updates + step.late_updates + step.optimizer.seconds();
    figures.transfer_cpu = step.transfer_cpu;
    figures.off_core = step.off_core;
    figures.buckets = step.buckets;
    figures.communication = time_under_way(step) + step.gather.seconds();
    figures.exposed = std::min(step.exposed_communication(), figures.communication);
    return figures;
}

void take_slowest(std::span<StepFigures> steps, Communicator& communicator) {
    std::vector<double> numbers;
    for (StepFigures& step : steps) for_numbers(step, [&](double number) { numbers.push_back(number); });
    if (numbers.empty()) return;
    communicator.all_reduce(view_of(std::span(numbers)), ReduceOp::max).wait();
    auto next = numbers.begin();
    for (StepFigures& step : steps) for_numbers(step, [&](double& number) { number = *next++; });
}

StepProfile profile_of(std::span<const StepTimeline> steps) {
    if (steps.empty()) return {};
    const auto last = [](const StepTimeline& step) -> const MicroBatchTimes& {
        return step.micro_batches().back();
    };
    const auto over_steps = [&](const auto& seconds) {
        std::vector<double> values;
        for (const StepTimeline& step : steps) values.push_back(seconds(step));
        return median(std::move(values));
    };
    StepProfile profile;
    profile.data = over_steps([&](const auto& step) { return last(step).data.seconds(); });
    profile.optimizer = over_steps(
        [](const auto& step) { return step.early_updates + step.late_updates + step.optimizer.seconds(); });
    const std::size_t layers = last(steps.front()).layer_forward.size();
    for (std::size_t layer = 0; layer < layers; ++layer) {
        profile.layer_forward.push_back(
            over_steps([&](const auto& step) { return last(step).layer_forward[layer].seconds(); }));
        profile.layer_backward.push_back(
            over_steps([&](const auto& step) { return last(step).layer_backward[layer].seconds(); }));
    }
    // What lies between the loss and the model's last layer is the loss's.
    profile.loss_forward = over_steps(
        [&](const auto& step) { return last(step).forward.end - last(step).layer_forward.back().end; });
    profile.loss_backward = over_steps(
        [&](const auto& step) { return last(step).layer_backward.back().begin - last(step).backward.begin; });
    return profile;
}

std::size_t median_step(std::span<const StepFigures> steps) {
    assert(!steps.empty());
    std::vector<std::size_t> order(steps.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return steps[i].step; });
    return order[order.size() / 2];
}

}  // namespace tutti
