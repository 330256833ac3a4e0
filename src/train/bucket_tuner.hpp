#pragma once
// `distributed.bucket_policy: auto` and `cost_model`: the first steps of a run measure, then the buckets are
// chosen.

#include <string>
#include <vector>

#include "bucket_measurement.hpp"
#include "bucket_profile.hpp"
#include "train_step.hpp"
#include "trial_choice.hpp"
#include "tutti/train/bucket_bench.hpp"

namespace tutti {

/// Full updates only count (an epoch's last one may be shorter): 2 with the configured ddp buckets, in which
/// everything is used for the first time; 4 with a single bucket, whose transfer disturbs no gradient, for
/// the ready times; then the all-reduce is timed. cost_model plans by that at once. auto takes up to five
/// plans - by cost, a single bucket, one per layer, and the two sizes of ddp that the cost model thinks best;
/// and where some go in pieces the first of these also in whole transfers - through rounds of real steps in
/// turns, because the model does not know what transfers cost the computation: 5 rounds of all, then twice 5
/// more of those that cannot be told apart yet (trial_choice.hpp). It keeps the fastest, on a tie the one by
/// cost. With the schedule across steps each of these steps comes after one under the same plan, whose
/// buckets it waits for. Every rank makes the same calls; all ranks get the same plan.
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
    /// At the end of some rounds: chooses (true), or gives up the slower ones and goes on.
    bool end_rounds();
    AcrossTiming across_timing() const;
    BucketTrial trial(const std::string& name, const std::vector<Bucket>& plan) const;
    /// The same buckets, none of them cut.
    BucketTrial in_whole_transfers(const BucketTrial& cut) const;
    void replan(const BucketTrial& trial);
    std::size_t current_trial() const;

    TrainStep& training_;
    const StepRecorder& recorder_;
    Phase phase_ = Phase::warm_up;
    std::size_t steps_ = 0;  // full updates in this phase
    bool across_;
    std::vector<StepTimeline> measured_;
    std::size_t in_turn_ = 0;              // steps of this trial's turn until now
    std::vector<TrialSeconds> seconds_;    // by trial, of the slowest rank once the rounds have ended
    std::vector<std::size_t> contenders_;  // the trials of this phase's rounds
    std::size_t agreed_ = 0;               // rounds whose seconds are the slowest rank's
    StepMeasurement measurement_;
    double piece_cost_ = 0;  // across steps
    BucketProfile result_;
};

/// "3 buckets of 0.5, 4.2 and 1.1 MiB".
std::string describe_buckets(std::span<const Bucket> buckets, std::size_t element_bytes);
/// Why this plan was chosen, on one line.
std::string describe_choice(const BucketProfile& profile, std::span<const Bucket> buckets,
                            std::size_t element_bytes);

}  // namespace tutti
