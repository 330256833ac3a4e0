#include "tutti/train/schedule_choice.hpp"

#include <fmt/format.h>

#include <array>

namespace tutti {

std::string describe(const ScheduleForecast& forecast) {
    return fmt::format(
        "on the network during the next one's forward they would change a step from {:.3g} to {:.3g} ms, by "
        "the model",
        forecast.within * 1e3, forecast.across * 1e3);
}

ScheduleForecast agree_on(ScheduleForecast forecast, Communicator& control) {
    std::array<double, 2> seconds{forecast.across, forecast.within};
    control.broadcast(view_of(std::span<double>(seconds)), 0).wait();
    return {seconds[0], seconds[1]};
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
