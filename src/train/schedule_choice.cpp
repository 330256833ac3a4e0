#include "tutti/train/schedule_choice.hpp"

#include <fmt/format.h>

#include <array>

#include "bucket_measurement.hpp"

namespace tutti {

std::string describe(const ScheduleForecast& forecast) {
    return fmt::format(
        "on the network during the next one's forward they would change a step from {:.3g} to {:.3g} ms, by "
        "the model",
        forecast.within * 1e3, forecast.across * 1e3);
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

std::vector<std::size_t> agree_on_order(std::vector<std::size_t> order, Communicator& control) {
    auto count = static_cast<std::int64_t>(order.size());
    control.broadcast(view_of(std::span(&count, 1)), 0).wait();
    std::vector<std::int64_t> numbers(order.begin(), order.end());
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
