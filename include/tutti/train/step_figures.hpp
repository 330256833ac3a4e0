#pragma once
// What measured steps amount to. Pure: time lines in, numbers out.

#include <cstddef>
#include <span>
#include <vector>

#include "tutti/base/spread.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/train/step_timeline.hpp"

namespace tutti {

/// Seconds of one step; those of the buckets since the step began.
struct StepFigures {
    double step = 0;
    double data = 0, forward = 0, backward = 0, optimizer = 0;  ///< of all micro-batches
    double communication = 0;  ///< in which at least one bucket was under way
    /// Waiting for it: after the end of backward, or, across steps, for buckets of the step before.
    double exposed = 0;
    double transfer_cpu = 0, off_core = 0;  ///< as in StepTimeline
    std::vector<BucketTimes> buckets;

    /// The part of communication beside computation.
    double hidden() const { return communication - exposed; }
    /// hidden / communication; 0 when nothing was sent.
    double overlap() const { return communication > 0 ? hidden() / communication : 0; }
};

/// The figures of one rank.
StepFigures figures_of(const StepTimeline& step);

/// Each number of each step becomes the largest of all ranks: a step lasts as long as its slowest rank. As
/// communication ≥ exposed on every rank, so it is afterwards. Collective: equally many steps with equally
/// many buckets everywhere.
void take_slowest(std::span<StepFigures> steps, Communicator& communicator);

/// Where the compute time of a step goes: medians over steps, seconds of one micro-batch.
struct StepProfile {
    double data = 0;
    std::vector<double> layer_forward, layer_backward;  ///< by layer, as in Graph::report()
    double loss_forward = 0, loss_backward = 0;
    double optimizer = 0;  ///< of one update
};

/// From the last micro-batch of each step, which must have had samples.
StepProfile profile_of(std::span<const StepTimeline> steps);

/// The middle step by its seconds, of an even number the later one of the two; its number. Steps ≥ 1.
std::size_t median_step(std::span<const StepFigures> steps);

}  // namespace tutti
