#pragma once
// Steps on numbers of ranks that were not measured, from those that were. Pure.

#include <cstdint>
#include <vector>

#include "tutti/comm/cost_scaling.hpp"
#include "tutti/train/bench_plans.hpp"
#include "tutti/train/step_measurement.hpp"

namespace tutti {

/// What `trainer bench buckets` has found on some ranks.
struct MeasuredWorld {
    int world = 0;                           ///< ≥ 2
    int ranks_per_host = 1;                  ///< above 1: all-reduces go host by host, as do their costs
    std::vector<ParameterSlice> parameters;  ///< arena order
    std::vector<bool> layer_ends;            ///< by parameter
    std::size_t element_bytes = 4;
    StepMeasurement measurement;
    CostModel cost;
    bool across = false;           ///< buckets could stay on the network during the next step's forward
    AcrossTiming across_timing{};  ///< then; with per_piece of these ranks
};

/// The steps of a plan, as predicted.
struct PlanForecast {
    BenchPlan plan;
    double step = 0;      ///< seconds
    double exposed = 0;   ///< of them, those that would not be there without communication
    double searched = 0;  ///< step, without what transfers take from the processor
};

struct WorldForecast {
    int world = 0;
    EvenHosts at;  ///< by MeasuredWorld::ranks_per_host
    AllReduceShape shape = AllReduceShape::ring;
    CostModel cost;
    double compute = 0;                 ///< seconds of a step without communication
    std::vector<PlanForecast> plans{};  ///< none on one rank
    std::size_t best = 0;               ///< the plan with the shortest step, the earliest on a tie
    /// Seconds of the best plan's step; on one rank, of the computation.
    double step() const { return plans.empty() ? compute : plans[best].step; }
};

/// Seconds of a step without communication, under the schedule of the plan.
double compute_alone(const MeasuredWorld& measured, bool across);

/// Steps of one plan whose transfers cost so much; an order of issue that it lacks is searched.
PlanForecast forecast_plan(const MeasuredWorld& measured, const BenchPlan& plan, const CostModel& cost);

/// Whether it is of as many ranks as measured, or hosts where costs go by these.
bool costs_as_measured(const MeasuredWorld& measured, const WorldForecast& forecast);

/// Every plan of the request, under the schedule within steps and, where the measured ranks could, under the
/// one across steps. Assumes that every two ranks are joined by links as the measured ones, which carry
/// nothing else, and that a rank computes as long as there. Where all-reduces go host by host, costs go by
/// the number of hosts (even_hosts), and what is done within them counts as the network's. Of other numbers
/// of ranks than measured no bucket goes in pieces: whether bits would depend on that is not known.
/// cost_model is planned for these ranks. Plans and their orders of issue are searched without the
/// processor's part of transfers, as `trainer bench buckets` and bucket_policy auto do (jobs/buckets.md); the
/// forecasts of their steps, and so the best of them, count it. Throws UsageError as even_hosts does.
WorldForecast forecast_world(const MeasuredWorld& measured, int world, AllReduceShape shape,
                             const PlanRequest& request);

}  // namespace tutti
