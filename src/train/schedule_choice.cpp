#include "tutti/train/schedule_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <thread>

#include "bucket_measurement.hpp"
#include "tutti/base/spread.hpp"

namespace tutti {
namespace {

/// Three digits, and no exponent where there are more of them before the point.
std::string figures(double value) {
    return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

/// Elements of an arena from `first` on.
TensorView slice(const TensorView& arena, std::int64_t first, std::int64_t count) {
    return {arena.data + first * static_cast<std::int64_t>(size_of(arena.dtype)), arena.dtype, {count}};
}

/// Seconds of transfers that are issued at once, on this rank.
double timed_at_once(Communicator& gradients, Communicator& control, std::span<const TensorView> slices) {
    using Clock = std::chrono::steady_clock;
    std::vector<Work> works(slices.size());
    control.barrier();
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < slices.size(); ++i) works[i] = gradients.all_reduce(slices[i], ReduceOp::sum);
    // As the reducer polls: all that are under way go on.
    for (std::ptrdiff_t done = 0; done < std::ssize(works); std::this_thread::yield())
        done = std::ranges::count_if(works, [](Work& work) { return work.test(); });
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

std::string name_of_schedule(bool across) {
    return across ? "across steps" : "within steps";
}

std::string describe(const ScheduleForecast& forecast) {
    return fmt::format(
        "on the network during the next one's forward they would change a step from {} to {} ms, by "
        "the model",
        figures(forecast.within * 1e3), figures(forecast.across * 1e3));
}

std::string describe(const ScheduleForecast& forecast, ScheduleTrials schedules, double margin) {
    if (tries_both(schedules))
        return "buckets are tried under both schedules: " + describe(forecast) +
               fmt::format(", which may be wrong by {:.0f} % of a step", 100 * margin);
    return (schedules == ScheduleTrials::across ? "buckets stay on the network during the next forward: "
                                                : "transfers end with their step: ") +
           describe(forecast) + fmt::format(", which is not wrong by {:.0f} % of a step", 100 * margin);
}

ScheduleTrials ScheduleForecast::worth_trying(double margin) const {
    if (across < (1 - margin) * within) return ScheduleTrials::across;
    if (within < (1 - margin) * across) return ScheduleTrials::within;
    return across_pays() ? ScheduleTrials::across_first : ScheduleTrials::within_first;
}

ScheduleForecast agree_on(ScheduleForecast forecast, Communicator& control) {
    std::array<double, 2> seconds{forecast.across, forecast.within};
    control.broadcast(view_of(std::span<double>(seconds)), 0).wait();
    return {seconds[0], seconds[1]};
}

std::vector<std::size_t> agree_on_numbers(std::vector<std::size_t> mine, Communicator& control) {
    auto count = static_cast<std::int64_t>(mine.size());
    control.broadcast(view_of(std::span(&count, 1)), 0).wait();
    std::vector<std::int64_t> numbers(mine.begin(), mine.end());
    numbers.resize(static_cast<std::size_t>(count));
    if (count > 0) control.broadcast(view_of(std::span(numbers)), 0).wait();
    return {numbers.begin(), numbers.end()};
}

double measure_small_all_reduce(Communicator& gradients, Communicator& control) {
    constexpr std::size_t repetitions = 7;
    float element = 0;
    const TensorView buffer = view_of(std::span(&element, 1));
    timed_all_reduce(gradients, control, buffer);  // connections and buffers are made by the first
    std::vector<double> times(repetitions);
    for (double& time : times) time = timed_all_reduce(gradients, control, buffer);
    double seconds = median(std::move(times));
    control.all_reduce(view_of(std::span(&seconds, 1)), ReduceOp::max).wait();
    return seconds;
}

double measure_latency(Communicator& gradients, Communicator& control, Ops& ops, const TensorView& arena) {
    constexpr std::size_t at_once = 8, bytes = 4096, repetitions = 7;
    const std::size_t element = size_of(arena.dtype);
    const auto count = static_cast<std::int64_t>(std::min(bytes, arena.bytes() / at_once) / element);
    if (count == 0) return 0;
    std::vector<TensorView> slices;
    for (std::size_t i = 0; i < at_once; ++i)
        slices.push_back(slice(arena, static_cast<std::int64_t>(i) * count, count));
    const auto timed = [&](std::size_t transfers) {
        return timed_at_once(gradients, control, std::span(slices).first(transfers));
    };
    // Sums of what was left there could grow beyond all bounds.
    for (const TensorView& one : slices) ops.fill(one, 0.0);
    timed(at_once);  // connections and buffers are made by the first
    std::vector<double> alone(repetitions), together(repetitions);
    for (std::size_t i = 0; i < repetitions; ++i) {
        alone[i] = timed(1);
        together[i] = timed(at_once);
    }
    // A rank that leaves the barrier late finds the others' there: of each time the slowest rank's. Other
    // work on the machine only ever adds.
    for (std::vector<double>* times : {&alone, &together})
        control.all_reduce(view_of(std::span(*times)), ReduceOp::max).wait();
    const double one = std::ranges::min(alone);
    const double kept_waiting = (std::ranges::min(together) - one) / static_cast<double>(at_once - 1);
    return std::max(one - std::max(kept_waiting, 0.0), 0.0);
}

double measure_arena_in_parts(Communicator& gradients, Communicator& control, Ops& ops,
                              const TensorView& arena) {
    constexpr std::size_t repetitions = 3;
    ops.fill(arena, 0.0);
    double least = std::numeric_limits<double>::infinity();
    for (const std::int64_t parts : {4, 16, 64}) {
        const std::int64_t each = (arena.count() + parts - 1) / parts;
        if (arena.count() < parts) break;
        std::vector<TensorView> slices;
        for (std::int64_t first = 0; first < arena.count(); first += each)
            slices.push_back(slice(arena, first, std::min(each, arena.count() - first)));
        std::vector<double> times(repetitions);
        for (double& time : times) time = timed_at_once(gradients, control, slices);
        control.all_reduce(view_of(std::span(times)), ReduceOp::max).wait();
        least = std::min(least, std::ranges::min(times));
    }
    return least;
}

SchedulePlans plan_schedules(std::span<const ParameterSlice> parameters, const std::vector<bool>& layer_ends,
                             const BucketTiming& cost, const AcrossTiming& timing) {
    SchedulePlans plans{plan_by_cost(parameters, layer_ends, cost),
                        plan_across_steps(parameters, layer_ends, cost.cost, cost.element_bytes, timing),
                        {}};
    plans.forecast = {plans.across.seconds,
                      step_within(plans.within, transfer_seconds(plans.within, cost), timing)};
    return plans;
}

}  // namespace tutti
