#pragma once
// `distributed.bucket_policy: auto` and `cost_model`: the first steps of a run measure, then the buckets are
// chosen.

#include <string>
#include <vector>

#include "bucket_measurement.hpp"
#include "bucket_profile.hpp"
#include "train_step.hpp"
#include "trial_choice.hpp"
#include "tutti/train/schedule_choice.hpp"

namespace tutti {

/// Full updates only count (an epoch's last one may be shorter): 2 with the configured ddp buckets, in which
/// everything is used for the first time; 4 with a single bucket, whose transfer disturbs no gradient, for
/// the ready times; then the all-reduce is timed, alone and beside a computation. cost_model plans by that.
/// auto takes plans_to_try() (trial_plans.hpp) through rounds of real steps in turns, as the model knows
/// but roughly what transfers cost it: 5 rounds of all, then twice 5 more of those that cannot be told apart
/// yet (trial_choice.hpp). It keeps the fastest, on a tie the one by cost. With distributed.across_steps auto
/// they are of both schedules unless the forecast says that one is clearly worse: each turn completes what
/// the one before it has left on the network and goes on with its own schedule, so no bit depends on what is
/// tried. Across steps a turn's step counts that had to wait for buckets of the one before it; where there
/// never is one, because an evaluation or checkpoint completes every step, plans across steps are not chosen
/// if there are others: their transfers were in no time that was measured. Every rank makes the same calls;
/// all ranks get the same plan.
class BucketTuner {
  public:
    /// Both must outlive it; `training` records into `recorder`. clearly_worse: by how much of a step one
    /// schedule's forecast must be worse for it not to be tried.
    BucketTuner(TrainStep& training, const StepRecorder& recorder,
                double clearly_worse = ScheduleForecast::clearly);

    /// Sets the plan of the next update.
    void before_update();
    /// True when the choice is made: its plan is then the reducer's. Collective at the ends of phases.
    bool after_update(const UpdateReport& report);

    /// Valid once after_update has returned true; its key is left to the caller.
    const BucketProfile& result() const { return result_; }
    /// False where the choice is good for this run only: what completes every step hid from the measurement
    /// what transfers across steps cost.
    bool represents_runs() const { return represents_runs_; }

  private:
    enum class Phase { warm_up, ready_times, trials };

    void plan_trials();
    ScheduleTrials schedules_to_try(const ScheduleForecast& forecast);
    /// Gives up trials across steps of which no step began with buckets of the one before it.
    void drop_unseen();
    /// At the end of some rounds: chooses (true), or gives up the slower ones and goes on.
    bool end_rounds();
    void replan(const BucketTrial& trial);
    std::size_t current_trial() const;

    TrainStep& training_;
    const StepRecorder& recorder_;
    Phase phase_ = Phase::warm_up;
    std::size_t steps_ = 0;  // full updates in this phase
    const double clearly_worse_;
    const bool may_be_across_;
    std::vector<StepTimeline> measured_;
    std::size_t in_turn_ = 0;    // steps of this trial's turn until now
    bool carries_ = false;       // this step begins with buckets of the one before it
    std::vector<bool> carried_;  // by trial: some step that counted did so
    bool represents_runs_ = true;
    std::vector<TrialSeconds> seconds_;    // by trial, of the slowest rank once the rounds have ended
    std::vector<std::size_t> contenders_;  // the trials of this phase's rounds
    std::size_t agreed_ = 0;               // rounds whose seconds are the slowest rank's
    BucketProfile result_;
};

/// "3 buckets of 0.5, 4.2 and 1.1 MiB".
std::string describe_buckets(std::span<const Bucket> buckets, std::size_t element_bytes);
/// Why this plan was chosen, on one line.
std::string describe_choice(const BucketProfile& profile, std::span<const Bucket> buckets,
                            std::size_t element_bytes);

}  // namespace tutti
