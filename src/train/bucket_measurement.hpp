#pragma once
// What the choice of buckets is made from: when gradients are ready, and what an all-reduce costs.

#include <vector>

#include "tutti/comm/communicator.hpp"
#include "tutti/comm/cost_model.hpp"
#include "tutti/train/bucket_plan.hpp"
#include "tutti/train/step_timeline.hpp"

namespace tutti {

/// Seconds after the beginning of the last micro-batch's backward.
struct ReadyTimes {
    std::vector<double> ready;  ///< by parameter
    double backward_end = 0;
};

/// Of each time the median over the steps and of that the maximum over the ranks: a bucket can go out when
/// the slowest rank has it. Collective; the same bits on every rank.
ReadyTimes agree_on_ready_times(Communicator& communicator, std::span<const ReadyTimes> steps);
/// One step's.
ReadyTimes ready_times_of(const StepTimeline& timeline);

/// Seconds of one all-reduce that all ranks begin together. Collective. `control`: another communicator of
/// the same ranks.
double timed_all_reduce(Communicator& gradients, Communicator& control, const TensorView& buffer);

/// Times all-reduces of slices of `arena`, of one element and from 4 KiB in steps of 4 to the whole, each
/// several times (the median; of that the maximum over the ranks), and fits a model; where it is wrong, sizes
/// in between are measured too (sizes_to_add). Larger sizes are left out once about three seconds have
/// passed. Overwrites the arena. Collective; the same bits on every rank. `control`: another communicator of
/// the same ranks. `ops` of the arena's type.
CostModel measure_all_reduce(Communicator& gradients, Communicator& control, Ops& ops,
                             const TensorView& arena);

}  // namespace tutti
