#pragma once
// The order in which a plan's buckets are issued under the schedule across steps, from the first steps of a
// run.

#include <vector>

#include "train_step.hpp"
#include "tutti/train/schedule_choice.hpp"
#include "tutti/train/step_timeline.hpp"

namespace tutti {

/// Whether the schedule across steps stays: with distributed.across_steps auto only where it pays by the
/// forecast; if not, turns it off and says so. Collective; rank 0's forecast counts.
bool keep_across_steps(TrainStep& training, const ScheduleForecast& forecast);

/// Of a plan that no measurement has chosen: whether its buckets stay on the network across steps, and there
/// is an order to choose. One bucket has none, and is never hidden there, as it is ready last and needed
/// first: distributed.across_steps auto turns the schedule off then, and says so. Collective.
bool has_an_order(TrainStep& training);

/// For plans that no measurement has chosen. Full updates only count (an epoch's last one may be shorter): 2
/// in which everything is used for the first time, then 4 in the plan's own order tell when buckets are ready
/// and how long each is on the network; issue_order() follows from that, and with distributed.across_steps
/// auto whether it pays at all. Every rank makes the same calls; rank 0's results count.
class OrderMeasurement {
  public:
    /// Both must outlive it; `training` records into `recorder`.
    OrderMeasurement(TrainStep& training, const StepRecorder& recorder)
        : training_(training), recorder_(recorder) {}

    /// True when the order is chosen; the next update follows it. Collective then.
    bool after_update(const UpdateReport& report);

  private:
    void choose();
    std::vector<double> transfer_times() const;

    TrainStep& training_;
    const StepRecorder& recorder_;
    std::size_t full_ = 0;  // full updates
    bool previous_full_ = false;
    std::vector<StepTimeline> steps_;  // whose buckets are done
};

}  // namespace tutti
