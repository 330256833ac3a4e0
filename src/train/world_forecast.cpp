#include "tutti/train/world_forecast.hpp"

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

/// The timing across steps whose transfers cost what this model says.
AcrossTiming timing_with(const MeasuredWorld& measured, const CostModel& cost) {
    return with_costs(measured.across_timing, cost, measured.element_bytes);
}

BucketTiming timing_within(const MeasuredWorld& measured, const CostModel& cost) {
    return {measured.measurement.ready, cost, measured.element_bytes};
}

int measured_hosts(const MeasuredWorld& measured) {
    return even_hosts(measured.world, measured.ranks_per_host).hosts;
}

}  // namespace

double compute_alone(const MeasuredWorld& measured, bool across) {
    if (!across) return measured.measurement.compute();
    const std::vector<Bucket> one = plan_buckets(measured.parameters, measured.layer_ends,
                                                 {BucketPolicy::single, measured.element_bytes});
    const std::vector<std::size_t> order{0};
    return step_across(one, order, std::vector<double>{0.0}, timing_with(measured, {}));
}

PlanForecast forecast_plan(const MeasuredWorld& measured, const BenchPlan& plan, const CostModel& cost) {
    PlanForecast forecast{plan};
    const CostModel searching = cost.with_processor({});
    if (plan.across && plan.order.empty())
        forecast.plan.order =
            issue_order(plan.buckets, transfer_seconds(plan.buckets, timing_within(measured, searching)),
                        timing_with(measured, searching));
    const auto step = [&](const CostModel& model) {
        const BucketTiming timing = timing_within(measured, model);
        if (!plan.across) return measured.measurement.predict(plan.buckets, timing);
        return step_across(plan.buckets, forecast.plan.order, transfer_seconds(plan.buckets, timing),
                           timing_with(measured, model));
    };
    forecast.step = step(cost);
    forecast.searched = step(searching);
    forecast.exposed = std::max(forecast.step - compute_alone(measured, plan.across), 0.0);
    return forecast;
}

bool costs_as_measured(const MeasuredWorld& measured, const WorldForecast& forecast) {
    return forecast.at.hosts == measured_hosts(measured);
}

WorldForecast forecast_world(const MeasuredWorld& measured, int world, AllReduceShape shape,
                             const PlanRequest& request) {
    const EvenHosts at = even_hosts(world, measured.ranks_per_host);
    WorldForecast result{.world = world,
                         .at = at,
                         .shape = shape,
                         .cost = cost_on(measured.cost, measured_hosts(measured), at.hosts, shape),
                         .compute = compute_alone(measured, false)};
    if (world == 1) return result;
    MeasuredWorld here = measured;
    if (world != measured.world) here.across_timing.per_piece = std::numeric_limits<double>::infinity();
    const CostModel searching = result.cost.with_processor({});
    for (const bool across : {false, true}) {
        if (across && !here.across) continue;
        const std::vector<Bucket> by_cost =
            across ? plan_across_steps(here.parameters, here.layer_ends, searching, here.element_bytes,
                                       timing_with(here, searching))
                         .buckets
                   : plan_by_cost(here.parameters, here.layer_ends, timing_within(here, searching));
        for (BenchPlan& plan :
             distinct_plans(request, here.parameters, here.layer_ends, here.element_bytes, by_cost)) {
            plan.across = across;
            result.plans.push_back(forecast_plan(here, plan, result.cost));
        }
    }
    result.best = static_cast<std::size_t>(std::ranges::min_element(result.plans, {}, &PlanForecast::step) -
                                           result.plans.begin());
    return result;
}

}  // namespace tutti
