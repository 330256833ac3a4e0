#pragma once
// Which of two schedules a run takes: transfers that end with their step, or across steps (across_steps.hpp).

#include <span>
#include <string>
#include <vector>

#include "tutti/comm/communicator.hpp"
#include "tutti/train/across_steps.hpp"

namespace tutti {

/// "across steps" or "within steps".
std::string name_of_schedule(bool across);

/// The schedules that are worth real steps, and of both the one that is taken on a tie.
enum class ScheduleTrials { within, across, within_first, across_first };

inline bool tries_both(ScheduleTrials schedules) {
    return schedules == ScheduleTrials::within_first || schedules == ScheduleTrials::across_first;
}

/// A step by the model under either schedule, in seconds.
struct ScheduleForecast {
    double across = 0, within = 0;

    /// By how much of a step one schedule must be worse by the forecast to be left out of trials. What
    /// forecasts have said of the difference was wrong by up to an eighth of a step (vit on two hosts of
    /// 1 Gbit/s: forecast 0 % and 5 % shorter across steps, measured 5 to 13 % and 2 % longer): the
    /// processor's part of transfers and the waits for a slower rank differ between the schedules, too.
    static constexpr double clearly = 0.15;
    /// What `distributed.bucket_policy: auto` tries in real steps.
    ScheduleTrials worth_trying(double margin = clearly) const;
    /// Whether `distributed.across_steps: auto` takes the schedule across steps where no real steps tell
    /// (bucket policies but auto), or on a tie of those: where it saves 5 %. The model knows the
    /// processor's part of transfers about, and not what a rank waits for a slower one; no schedule hides
    /// them.
    bool across_pays() const { return across < 0.95 * within; }
};

/// "on the network during ... they would change a step from 12 to 11.9 ms, by the model".
std::string describe(const ScheduleForecast& forecast);
/// What worth_trying(margin) has decided, and why: "transfers end with their step: on the network ..., and
/// the model is not wrong by more than 15 % of a step".
std::string describe(const ScheduleForecast& forecast, ScheduleTrials schedules, double margin);

/// Rank 0's, on every rank. Collective.
ScheduleForecast agree_on(ScheduleForecast forecast, Communicator& control);

/// Rank 0's list (an order of issue, buckets, sizes to measure), however long each rank's own is: ranks on
/// unlike processors may round a prediction differently. Collective.
std::vector<std::size_t> agree_on_numbers(std::vector<std::size_t> mine, Communicator& control);

/// Seconds of an all-reduce of one element in this process's memory: the median of a few, of that the slowest
/// rank's. Collective; the same bits on every rank. `control`: another communicator of the same ranks.
double measure_small_all_reduce(Communicator& gradients, Communicator& control);

/// CostModel::latency: of n small all-reduces issued at once, which take t(n), each but the last keeps the
/// next one waiting for (t(n) − t(1)) / (n − 1), and the rest of t(1) is latency. The shortest of some, of
/// those the slowest rank's; not negative. Overwrites the beginning of `arena`; 0 where that is too small.
/// Collective; the same bits on every rank. `control`: another communicator of the same ranks. `ops` of the
/// arena's type.
double measure_latency(Communicator& gradients, Communicator& control, Ops& ops, const TensorView& arena);

/// Seconds of all of an arena in 4, 16 or 64 equal transfers, issued at once, with nothing beside them: the
/// shortest of some, of those the slowest rank's. What no schedule beats is counted from this, as single
/// transfers do not tell it: a network that lets a burst pass at once makes each small one cheap, and not a
/// row of them. Infinite where it has fewer elements. Overwrites the arena. Collective; the same bits on
/// every rank. `control`, `ops`: as for measure_latency.
double measure_arena_in_parts(Communicator& gradients, Communicator& control, Ops& ops,
                              const TensorView& arena);

/// The plan that the cost model makes for each schedule, and what it expects of them.
struct SchedulePlans {
    std::vector<Bucket> within;  ///< plan_by_cost()
    AcrossPlan across;           ///< plan_across_steps()
    ScheduleForecast forecast;
};
/// `cost`: with the ready times of `timing`. Pure; O(L³) for L layers.
SchedulePlans plan_schedules(std::span<const ParameterSlice> parameters, const std::vector<bool>& layer_ends,
                             const BucketTiming& cost, const AcrossTiming& timing);

}  // namespace tutti
