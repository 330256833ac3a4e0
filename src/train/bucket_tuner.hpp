#pragma once
// `distributed.bucket_policy: auto` and `cost_model`: the first steps of a run measure, then the buckets are
// chosen.

#include <string>
#include <vector>

#include "bucket_measurement.hpp"
#include "bucket_profile.hpp"
#include "train_step.hpp"

namespace tutti {

/// Full updates only count (an epoch's last one may be shorter): 2 with the configured ddp buckets, in which
/// everything is used for the first time; 4 with a single bucket, whose transfer disturbs no gradient, for
/// the ready times; then the all-reduce is timed. cost_model plans by that at once. auto takes up to four
/// plans - by cost, a single bucket, and the two sizes of ddp that the cost model thinks best - through 5
/// rounds of real steps in turns, because the model does not know what transfers cost the computation, and
/// keeps the one with the least median. Every rank makes the same calls; all ranks get the same plan.
class BucketTuner {
  public:
    /// Both must outlive it; `training` records into `recorder`.
    BucketTuner(TrainStep& training, const StepRecorder& recorder);

    /// Sets the plan of the next update.
    void before_update();
    /// True when the choice is made: its plan is then the reducer's. Collective at the ends of phases.
    bool after_update(const UpdateReport& report);

    /// Valid once after_update has returned true; its key is left to the caller.
    const BucketProfile& result() const { return result_; }

  private:
    enum class Phase { warm_up, ready_times, trials };

    void plan_trials();
    bool finish();
    std::size_t current_trial() const;

    TrainStep& training_;
    const StepRecorder& recorder_;
    Phase phase_ = Phase::warm_up;
    std::size_t steps_ = 0;  // full updates in this phase
    std::vector<ReadyTimes> ready_;
    std::vector<std::vector<double>> seconds_;  // of the steps, by trial
    BucketProfile result_;
};

/// "3 buckets of 0.5, 4.2 and 1.1 MiB".
std::string describe_buckets(std::span<const Bucket> buckets, std::size_t element_bytes);
/// Why this plan was chosen, on one line.
std::string describe_choice(const BucketProfile& profile, std::span<const Bucket> buckets,
                            std::size_t element_bytes);

}  // namespace tutti
