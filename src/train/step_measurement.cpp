#include "tutti/train/step_measurement.hpp"

#include <algorithm>
#include <numeric>

#include "bucket_measurement.hpp"
#include "tutti/base/spread.hpp"

namespace tutti {

double StepMeasurement::predict(std::span<const Bucket> buckets, const BucketTiming& timing) const {
    return before + std::max(finish_time(buckets, timing), stretched(backward_end, buckets, timing)) + rest;
}

double StepMeasurement::attainable(std::span<const ParameterSlice> parameters, const BucketTiming& timing,
                                   std::optional<double> least_of_all) const {
    const std::int64_t end = parameters.back().offset + parameters.back().count;
    double done = backward_end, all_before = 0;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
        all_before = std::max(all_before, timing.ready[p]);
        done =
            std::max(done, all_before + least_to_send(end - parameters[p].offset, end, timing, least_of_all));
    }
    return before + done + rest;
}

AcrossTiming StepMeasurement::across(const Graph& graph, double per_piece, const CostModel& cost) const {
    return with_costs(
        across(layers_of(graph, profile.layer_forward), graph.gradient_arena().count(), per_piece), cost,
        size_of(graph.compute()));
}

AcrossTiming StepMeasurement::across(std::vector<LayerForward> layers, std::int64_t elements,
                                     double per_piece) const {
    AcrossTiming timing;
    timing.ready = ready;
    timing.backward_end = backward_end;
    timing.between = std::max(rest - profile.optimizer, 0.0) + profile.data;
    timing.layers = std::move(layers);
    timing.loss =
        std::max(before - profile.data -
                     std::accumulate(profile.layer_forward.begin(), profile.layer_forward.end(), 0.0),
                 0.0);
    timing.update_per_element = profile.optimizer / static_cast<double>(elements);
    timing.per_piece = per_piece;
    return timing;
}

StepMeasurement StepMeasurement::scaled_to(double seconds) const {
    const double factor = seconds / compute();
    StepMeasurement scaled = *this;
    for (double* part :
         {&scaled.before, &scaled.backward_end, &scaled.rest, &scaled.profile.data,
          &scaled.profile.loss_forward, &scaled.profile.loss_backward, &scaled.profile.optimizer})
        *part *= factor;
    for (std::vector<double>* parts :
         {&scaled.ready, &scaled.profile.layer_forward, &scaled.profile.layer_backward})
        for (double& part : *parts) part *= factor;
    return scaled;
}

double agree_on_compute(std::span<const StepTimeline> steps, Communicator& communicator) {
    std::vector<double> seconds;
    for (const StepTimeline& step : steps) seconds.push_back(step.seconds - step.exposed_communication());
    communicator.all_reduce(view_of(std::span(seconds)), ReduceOp::max).wait();
    return median(std::move(seconds));
}

StepMeasurement agree_on_measurement(std::span<const StepTimeline> steps, Communicator& communicator) {
    std::vector<ReadyTimes> times;
    std::vector<double> before, rest;
    for (const StepTimeline& step : steps) {
        times.push_back(ready_times_of(step));
        // What is left of the step before lies in forward.
        const double waits = step.exposed_communication() - step.late_waits;
        before.push_back(step.micro_batches().back().backward.begin - step.late_waits - step.late_updates);
        rest.push_back(step.seconds - step.backward_end() - waits + step.late_updates);
    }
    const ReadyTimes agreed = agree_on_ready_times(communicator, times);
    StepProfile profile = profile_of(steps);
    std::vector<double> numbers{median(std::move(before)), median(std::move(rest)), profile.data,
                                profile.optimizer};
    numbers.insert(numbers.end(), profile.layer_forward.begin(), profile.layer_forward.end());
    communicator.all_reduce(view_of(std::span(numbers)), ReduceOp::max).wait();
    profile.data = numbers[2];
    profile.optimizer = numbers[3];
    std::copy(numbers.begin() + 4, numbers.end(), profile.layer_forward.begin());
    return {numbers[0], agreed.ready, agreed.backward_end, numbers[1], std::move(profile)};
}

}  // namespace tutti
