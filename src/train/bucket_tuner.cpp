#include "bucket_tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "order_measurement.hpp"
#include "trial_plans.hpp"
#include "tutti/base/units.hpp"
#include "tutti/train/step_measurement.hpp"

namespace tutti {
namespace {

constexpr std::size_t warm_up_steps = 2, ready_steps = 4, rounds_at_once = 5, most_rounds = 15;
// Where evaluations or checkpoints complete every step, none ever has to wait for the one before it: a turn
// must end all the same, and drop_unseen() judges it.
constexpr std::size_t longest_turn = 4;

std::string milliseconds(double seconds) {
    return fmt::format("{:.3g} ms", seconds * 1e3);
}

}  // namespace

BucketTuner::BucketTuner(TrainStep& training, const StepRecorder& recorder, double clearly_worse)
    : training_(training),
      recorder_(recorder),
      clearly_worse_(clearly_worse),
      may_be_across_(training.spreads_across_steps()) {}

std::size_t BucketTuner::current_trial() const {
    // Each round begins with another one: what befalls every n-th step then befalls all alike.
    const std::size_t trials = contenders_.size();
    return contenders_[(steps_ / trials + steps_ % trials) % trials];
}

void BucketTuner::replan(const BucketTrial& trial) {
    training_.spread_across_steps(trial.across_steps());
    training_.replan(plan_from_ends(parameter_slices(training_.graph), trial.ends), trial.order);
}

void BucketTuner::before_update() {
    if (phase_ == Phase::ready_times && steps_ == 0) {
        training_.spread_across_steps(false);
        training_.replan(plan_buckets(parameter_slices(training_.graph), layer_ends(training_.graph),
                                      {BucketPolicy::single}));
    }
    if (phase_ == Phase::trials && in_turn_ == 0) replan(result_.trials[current_trial()]);
    carries_ = training_.reducer.pending();
}

bool BucketTuner::after_update(const UpdateReport& report) {
    if (report.samples != training_.global_batch()) return false;
    if (phase_ == Phase::ready_times) measured_.push_back(recorder_.timeline());
    if (phase_ == Phase::trials) {
        const bool counts = carries_ || !training_.spreads_across_steps();
        if (++in_turn_ < longest_turn && !counts) return false;
        in_turn_ = 0;
        if (carries_) carried_[current_trial()] = true;
        seconds_[current_trial()].push_back(recorder_.timeline().seconds);
    }
    ++steps_;
    if (phase_ == Phase::warm_up && steps_ == warm_up_steps) {
        phase_ = Phase::ready_times;
        steps_ = 0;
    } else if (phase_ == Phase::ready_times && steps_ == ready_steps) {
        plan_trials();
        phase_ = Phase::trials;
        steps_ = 0;
        return contenders_.size() == 1 && end_rounds();
    }
    return phase_ == Phase::trials && steps_ == rounds_at_once * contenders_.size() && end_rounds();
}

ScheduleTrials BucketTuner::schedules_to_try(const ScheduleForecast& forecast) {
    if (!may_be_across_) return ScheduleTrials::within;
    const auto& config = training_.config.distributed;
    if (config.across_steps == AcrossSteps::yes) return ScheduleTrials::across;
    if (config.bucket_policy != BucketPolicy::automatic)
        return keep_across_steps(training_, forecast) ? ScheduleTrials::across : ScheduleTrials::within;
    const ScheduleForecast agreed = agree_on(forecast, training_.job.control);
    const ScheduleTrials schedules = agreed.worth_trying(clearly_worse_);
    training_.job.log.info(describe(agreed, schedules, clearly_worse_));
    return schedules;
}

void BucketTuner::plan_trials() {
    const StepMeasurement measurement = agree_on_measurement(measured_, training_.job.control);
    measured_.clear();
    result_.ready = measurement.ready;
    result_.backward_end = measurement.backward_end;
    Communicator &gradients = training_.job.gradients, &control = training_.job.control;
    const TensorView arena = training_.graph.gradient_arena();
    result_.cost = measure_all_reduce(gradients, control, training_.arena_ops, arena)
                       .with_latency(measure_latency(gradients, control, training_.arena_ops, arena));

    const auto slices = parameter_slices(training_.graph);
    const auto ends = layer_ends(training_.graph);
    const BucketTiming timing{result_.ready, result_.cost, size_of(training_.graph.compute())};
    TrialContext context{slices, ends, timing};
    context.first_bucket = static_cast<std::size_t>(training_.config.distributed.first_bucket_mb * mebibyte);
    context.backward_end = result_.backward_end;
    AcrossTiming across;
    SchedulePlans plans;
    if (may_be_across_) {
        // The model may make a transfer of nothing cheaper than any is.
        const double empty =
            std::max(result_.cost.seconds(0),
                     measure_small_all_reduce(training_.job.gradients, training_.job.control));
        across =
            measurement.across(training_.graph, piece_cost(training_.job.gradients, empty), result_.cost);
        context.across = &across;
        plans = plan_schedules(slices, ends, timing, across);
    } else {
        plans.within = plan_by_cost(slices, ends, timing);
    }
    const ScheduleTrials schedules = schedules_to_try(plans.forecast);
    result_.trials = training_.config.distributed.bucket_policy == BucketPolicy::automatic
                         ? plans_to_try(context, plans, schedules)
                         : plans_by_cost(context, plans, schedules);
    result_.chosen = result_.trials.front();
    // Ranks on unlike processors could round a prediction differently: rank 0's list counts.
    const std::string text = broadcast_text(training_.job.control, to_json(result_), 0);
    result_ = bucket_profile_from_json(text, result_.key, slices.size());
    seconds_.assign(result_.trials.size(), {});
    carried_.assign(result_.trials.size(), false);
    contenders_.resize(result_.trials.size());
    std::iota(contenders_.begin(), contenders_.end(), std::size_t{0});
}

void BucketTuner::drop_unseen() {
    const auto unseen = [&](std::size_t t) {
        return result_.trials[t].across_steps() && !seconds_[t].empty() && !carried_[t];
    };
    if (std::ranges::none_of(contenders_, unseen)) return;
    represents_runs_ = false;
    if (std::ranges::all_of(contenders_, unseen)) return;
    for (const std::size_t t : contenders_)
        if (unseen(t)) seconds_[t].clear();
    std::erase_if(contenders_, [&](std::size_t t) { return seconds_[t].empty(); });
}

bool BucketTuner::end_rounds() {
    drop_unseen();
    // A step lasts as long as its slowest rank.
    std::vector<double> seconds;
    for (const std::size_t t : contenders_)
        seconds.insert(seconds.end(), seconds_[t].begin() + static_cast<std::ptrdiff_t>(agreed_),
                       seconds_[t].end());
    if (!seconds.empty()) training_.job.control.all_reduce(view_of(std::span(seconds)), ReduceOp::max).wait();
    auto next = seconds.begin();
    for (const std::size_t t : contenders_)
        for (std::size_t r = agreed_; r < seconds_[t].size(); ++r) seconds_[t][r] = *next++;
    agreed_ = seconds_[contenders_.front()].size();

    const TrialStanding standing = standing_of(seconds_);
    if (standing.contenders() > 1 && agreed_ < most_rounds) {
        std::erase_if(contenders_, [&](std::size_t t) { return !standing.contender[t]; });
        steps_ = 0;
        return false;
    }
    for (std::size_t t = 0; t < seconds_.size(); ++t) result_.trials[t].step = standing.median[t];
    result_.chosen = result_.trials[choice_of(standing)];
    replan(result_.chosen);
    return true;
}

std::string describe_buckets(std::span<const Bucket> buckets, std::size_t element_bytes) {
    const auto mib = [&](const Bucket& bucket) {
        return fmt::format("{:.3g}",
                           static_cast<double>(bucket.count) * static_cast<double>(element_bytes) / mebibyte);
    };
    if (buckets.size() == 1) return "1 bucket of " + mib(buckets.front()) + " MiB";
    std::string text = fmt::format("{} buckets of ", buckets.size());
    if (buckets.size() > 6) {
        const auto [least, most] = std::ranges::minmax_element(buckets, {}, &Bucket::count);
        return text + mib(*least) + " to " + mib(*most) + " MiB";
    }
    for (std::size_t b = 0; b < buckets.size(); ++b)
        text += (b == 0 ? "" : b + 1 == buckets.size() ? " and " : ", ") + mib(buckets[b]);
    return text + " MiB";
}

std::string describe_choice(const BucketProfile& profile, std::span<const Bucket> buckets,
                            std::size_t element_bytes) {
    const BucketTrial& chosen = profile.chosen;
    // Where it was a question.
    const bool says_schedule = std::ranges::any_of(profile.trials, [&](const BucketTrial& trial) {
        return trial.across_steps() != chosen.across_steps();
    });
    const auto name_of = [&](const BucketTrial& trial) {
        if (!says_schedule) return trial.name;
        return trial.name + (trial.across_steps() ? " across steps" : " within steps");
    };
    std::string text = "buckets: " + name_of(chosen) + ", " + describe_buckets(buckets, element_bytes);
    if (chosen.step > 0) text += "; a step takes " + milliseconds(chosen.step);
    bool first = true;
    for (const BucketTrial& trial : profile.trials) {
        if (trial.sends_alike(chosen) || trial.step == 0) continue;
        text += (first ? ", with " : ", ") + name_of(trial) + " " + milliseconds(trial.step);
        first = false;
    }
    const Bucket& last = buckets.back();
    const double all = static_cast<double>(last.offset + last.count) * static_cast<double>(element_bytes);
    text += "; backward takes " + milliseconds(profile.backward_end) + ", the all-reduce of all at once " +
            milliseconds(profile.cost.seconds(all)) +
            (!chosen.across_steps() ? ", exposed by the model " +
                                          milliseconds(std::max(chosen.predicted - profile.backward_end, 0.0))
                                    : ", a step across steps by the model " + milliseconds(chosen.predicted));
    return text;
}

}  // namespace tutti
