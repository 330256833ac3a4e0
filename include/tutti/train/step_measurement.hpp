#pragma once
// What measured steps say of steps under other plans, and what bounds them.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tutti/comm/communicator.hpp"
#include "tutti/train/across_steps.hpp"
#include "tutti/train/bucket_plan.hpp"
#include "tutti/train/step_figures.hpp"

namespace tutti {

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
    /// least_of_all: what all gradients take at least, where that was measured, in any number of transfers;
    /// no part of them takes longer.
    double attainable(std::span<const ParameterSlice> parameters, const BucketTiming& timing,
                      std::optional<double> least_of_all = {}) const;
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
    /// All gradients at best, alone: the shortest of some, in one transfer or measure_arena_in_parts.
    double least_communication = 0;
    /// StepMeasurement::attainable. Above the yardstick where communication would have to hide behind the
    /// forward pass, too, in which a step has nothing to send yet.
    double attainable = 0;
    double seconds() const { return (compute > communication ? compute : communication) + tail; }
};

}  // namespace tutti
