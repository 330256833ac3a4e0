#pragma once
// Steps whose computation is waited for instead of done, to study more ranks than there are cores.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tutti/comm/communicator.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/train/bucket_plan.hpp"
#include "tutti/train/step_figures.hpp"
#include "tutti/train/step_timeline.hpp"

namespace tutti {

/// How a replayed layer passes its time, for reports.
inline constexpr const char* replay_waits =
    "asleep, its last 0.1 ms awake; what one wait is late, the next ones of the step are shorter";

/// Every part of a step lasts as long as a profile says: a rank sleeps through it, so that ranks that share a
/// core do not disturb each other. The gradients, all zero, go through the real Reducer and communicator
/// exactly as in a training step; between layers the transfers are polled. One thread.
class StepReplay {
  public:
    /// graph: for its layers, parameters and gradient arena; it is not run. It and the communicators must
    /// outlive this. Throws DataError when the profile is not one of this graph.
    StepReplay(const Graph& graph, StepProfile profile, std::size_t micro_batches_per_step,
               Communicator& gradients, Communicator& control, std::vector<Bucket> buckets);
    ~StepReplay();

    /// From the next step on, the same on every rank; order: as in Reducer::replan.
    void set_buckets(std::vector<Bucket> buckets, std::vector<std::size_t> order = {});
    /// From the next step on buckets stay on the network during the next forward, or do not (at first).
    void spread_across_steps(bool spread);
    /// One step per timeline, which is overwritten; across steps after one that is not counted. Nothing is
    /// left on the network. Collective. Throws PeerError.
    void run(std::span<StepTimeline> steps);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
