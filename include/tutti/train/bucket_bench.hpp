#pragma once
// Bucket plans side by side: which are worth a measurement, their steps in turn, and what bounds them.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/base/bucket_policy.hpp"
#include "tutti/train/across_steps.hpp"
#include "tutti/train/bucket_plan.hpp"
#include "tutti/train/step_figures.hpp"

namespace tutti {

/// Plans to compare, as the command line names them.
struct PlanRequest {
    std::vector<BucketPolicy> policies;
    std::vector<double> bucket_mb;  ///< MiB; for ddp, which alone has a limit
    double first_bucket_mb = 1;     ///< at most; a smaller size holds for the first bucket, too
};

/// "ddp,single", none that is chosen by steps of its own (auto); "0.25,1,4". Throws UsageError that names
/// `flag` and the wrong item.
std::vector<BucketPolicy> parse_policies(std::string_view text, const std::string& flag);
std::vector<double> parse_bucket_sizes(std::string_view text, const std::string& flag);

/// How a plan was asked for.
struct PlanName {
    BucketPolicy policy = BucketPolicy::ddp;
    double bucket_mb = 0;      ///< 0: the policy has no limit
    std::string schedule{};    ///< "within steps" where the others' is another one; else empty
    std::string text() const;  ///< "ddp 25 MB", "single", "single within steps"
};

/// A plan that is measured once, under all names that lead to it.
struct BenchPlan {
    std::vector<PlanName> names;
    std::vector<Bucket> buckets;
    std::vector<std::size_t> order{};  ///< of issue; empty: the plan's own
    bool across = false;               ///< buckets stay on the network during the next step's forward
};

/// The different plans of a request, in its order. by_cost: the plan of the policy cost_model, where it is
/// asked for.
std::vector<BenchPlan> distinct_plans(const PlanRequest& request, std::span<const ParameterSlice> parameters,
                                      const std::vector<bool>& layer_ends, std::size_t element_bytes,
                                      const std::vector<Bucket>& by_cost);

/// Of each policy but single (which never pays across steps, and seldom within) the plan that the cost model
/// thinks best: the numbers of these, ascending, none twice. predicted: seconds of a step, by plan. Pure.
std::vector<std::size_t> best_of_policies(std::span<const BenchPlan> plans,
                                          std::span<const double> predicted);

struct BenchRounds {
    std::size_t steps = 20;   ///< measured of each plan
    std::size_t warmup = 3;   ///< before them, of each plan
    std::size_t in_turn = 2;  ///< steps of a plan before the next one's
};

/// Steps of all plans in turn, some of each per round, forwards and backwards through the list by turns, so
/// that a machine that becomes slower or faster does it to all alike.
class PlanSteps {
  public:
    /// Runs steps.size() steps under this plan.
    using Run = std::function<void(const BenchPlan& plan, std::span<StepTimeline> steps)>;
    /// Told before each round; what it throws ends the measurement.
    using BeforeRound = std::function<void(std::size_t round, std::size_t rounds)>;

    /// Collective through `run`. empty: a timeline of the bench's kind.
    PlanSteps(std::span<const BenchPlan> plans, const BenchRounds& rounds, const StepTimeline& empty,
              const Run& run, const BeforeRound& before_round);

    /// This rank's steps of a plan, in their order.
    std::span<const StepTimeline> steps(std::size_t plan) const { return steps_[plan]; }

  private:
    std::vector<std::vector<StepTimeline>> steps_;
};

/// What the cost model makes a prediction from: medians of the slowest rank over steps in one bucket, which
/// leaves backward alone, under the schedule within steps; or of any others, then with their disturbance.
struct StepMeasurement {
    double before = 0;          ///< seconds from the beginning of the step to that of the last backward
    std::vector<double> ready;  ///< by parameter, seconds after the beginning of that backward
    double backward_end = 0;    ///< likewise
    double rest = 0;            ///< seconds from the end of backward and of all transfers to that of the step
    StepProfile profile{};      ///< where the computation goes, of the slowest rank in each part

    /// What the schedule across steps has to do with, by what transfers cost. per_piece: AcrossTiming's.
    AcrossTiming across(const Graph& graph, double per_piece, const CostModel& cost) const;
    /// The same of a graph that is not there, and without its transfers' costs (with_costs): its layers'
    /// forwards, and the elements of its arena.
    AcrossTiming across(std::vector<LayerForward> layers, std::int64_t elements, double per_piece) const;

    /// Seconds of a step without communication; with the processor time that transfers take in backward.
    double compute() const { return before + backward_end + rest; }
    /// The same shares of a computation of so many seconds. seconds, compute() > 0.
    StepMeasurement scaled_to(double seconds) const;

    /// Of a step under a plan: before, the later of the stretched backward and of finish_time, and rest.
    double predict(std::span<const Bucket> buckets, const BucketTiming& timing) const;
    /// A step that no schedule within the step beats, however it cuts: when the gradient of a parameter is
    /// ready, what lies behind it in the arena is still to be sent, at best in transfers of the size that is
    /// cheapest per byte (CostModel::least_seconds). timing: as for predict, of the same measurement.
    double attainable(std::span<const ParameterSlice> parameters, const BucketTiming& timing) const;
};
/// Collective.
StepMeasurement agree_on_measurement(std::span<const StepTimeline> steps, Communicator& communicator);
/// Seconds of a step without what it waits for: of each step the slowest rank's, of those the median, as
/// measured steps are judged. Where ranks are disturbed by turns that is more than the medians of
/// agree_on_measurement amount to, each of which most steps of every rank keep. Collective, as many steps on
/// every rank, not none.
double agree_on_compute(std::span<const StepTimeline> steps, Communicator& communicator);

/// A yardstick for plans, in seconds: computation and communication at the same time, and then the bucket
/// that can only be sent when backward has ended, the one of the first layers. Where communication dominates
/// a step can be faster, because that bucket is part of the communication.
struct StepYardstick {
    double compute = 0;        ///< agree_on_compute of steps in one bucket, in the plans' rounds
    double communication = 0;  ///< all gradients in one transfer
    double tail = 0;           ///< the first layer's gradients in one transfer
    /// StepMeasurement::attainable. Above the yardstick where communication would have to hide behind the
    /// forward pass, too, in which a step has nothing to send yet.
    double attainable = 0;
    double seconds() const { return (compute > communication ? compute : communication) + tail; }
};

}  // namespace tutti
