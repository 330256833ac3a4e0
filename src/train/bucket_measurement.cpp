#include "bucket_measurement.hpp"

#include <algorithm>
#include <chrono>

#include "tutti/base/spread.hpp"
#include "tutti/comm/cost_sizes.hpp"
#include "tutti/train/schedule_choice.hpp"

namespace tutti {
namespace {

void largest_of_ranks(Communicator& communicator, std::span<double> values) {
    communicator.all_reduce(view_of(values), ReduceOp::max).wait();
}

}  // namespace

double timed_all_reduce(Communicator& gradients, Communicator& control, const TensorView& buffer) {
    using Clock = std::chrono::steady_clock;
    control.barrier();
    const auto begin = Clock::now();
    gradients.all_reduce(buffer, ReduceOp::sum).wait();
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

ReadyTimes ready_times_of(const StepTimeline& timeline) {
    const double begin = timeline.micro_batches().back().backward.begin;
    ReadyTimes times{timeline.parameter_ready, timeline.backward_end() - begin};
    for (double& ready : times.ready) ready -= begin;
    return times;
}

ReadyTimes agree_on_ready_times(Communicator& communicator, std::span<const ReadyTimes> steps) {
    ReadyTimes result;
    std::vector<double> all;
    for (std::size_t p = 0; p < steps.front().ready.size(); ++p) {
        all.clear();
        for (const ReadyTimes& step : steps) all.push_back(step.ready[p]);
        result.ready.push_back(median(all));
    }
    all.clear();
    for (const ReadyTimes& step : steps) all.push_back(step.backward_end);
    result.ready.push_back(median(all));
    largest_of_ranks(communicator, result.ready);
    result.backward_end = result.ready.back();
    result.ready.pop_back();
    return result;
}

CostModel measure_all_reduce(Communicator& gradients, Communicator& control, Ops& ops,
                             const TensorView& arena) {
    constexpr std::size_t smallest = 4096, repetitions = 5, repetitions_of_large = 3, large = 4u << 20;
    constexpr double enough_seconds = 3;
    constexpr int most_additions = 4;
    const std::size_t element = size_of(arena.dtype);
    std::vector<CostSample> samples;
    double spent = 0;
    const auto measure = [&](std::size_t bytes) {
        const TensorView slice{arena.data, arena.dtype, {static_cast<std::int64_t>(bytes / element)}};
        // Sums of what was left there could grow beyond all bounds.
        ops.fill(slice, 0.0);
        timed_all_reduce(gradients, control, slice);  // connections and buffers are made by the first
        std::vector<double> times(bytes >= large ? repetitions_of_large : repetitions);
        for (double& time : times) time = timed_all_reduce(gradients, control, slice);
        double time = median(times);
        largest_of_ranks(control, std::span(&time, 1));
        samples.push_back({static_cast<double>(slice.bytes()), time});
        spent += time * static_cast<double>(times.size() + 1);
    };
    // Of one size nothing could tell what a transfer costs and what its bytes do.
    if (arena.bytes() > element) measure(element);
    for (std::size_t bytes = smallest; spent < enough_seconds; bytes *= 4) {
        bytes = std::min(bytes, arena.bytes());
        measure(bytes);
        if (bytes == arena.bytes()) break;
    }
    for (int additions = 0; additions < most_additions; ++additions) {
        const double left = std::max(enough_seconds - spent, 0.0);
        const auto sizes =
            agree_on_numbers(sizes_to_add(samples, element, left / (2 * (repetitions + 1))), control);
        if (sizes.empty()) break;
        for (const std::uint64_t bytes : sizes) measure(bytes);
    }
    return fit_cost(samples);
}

}  // namespace tutti
