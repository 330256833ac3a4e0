#include "trial_plans.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tutti/base/bucket_policy.hpp"
#include "tutti/base/units.hpp"

namespace tutti {
namespace {

constexpr double ddp_sizes[] = {0.5, 1, 2.5, 5, 10, 25, 50};  // MiB

enum class Schedule { within, across };

BucketTrial trial_of(const TrialContext& context, Schedule schedule, const std::string& name,
                     std::span<const Bucket> plan) {
    BucketTrial trial;
    trial.name = name;
    for (const Bucket& bucket : plan) trial.ends.push_back(bucket.last);
    if (schedule == Schedule::within) {
        trial.predicted = std::max(finish_time(plan, context.timing),
                                   stretched(context.backward_end, plan, context.timing));
        return trial;
    }
    const std::vector<double> seconds = transfer_seconds(plan, context.timing);
    trial.order = issue_order(plan, seconds, *context.across);
    trial.predicted = step_across(plan, trial.order, seconds, *context.across);
    return trial;
}

BucketTrial in_whole_transfers(const TrialContext& context, const BucketTrial& cut) {
    const auto plan = plan_from_ends(context.parameters, cut.ends);
    const std::vector<double> seconds = transfer_seconds(plan, context.timing);
    BucketTrial whole;
    whole.name = cut.name + " in whole transfers";
    whole.ends = cut.ends;
    whole.order = whole_order(plan, seconds, *context.across);
    whole.predicted = step_across(plan, whole.order, seconds, *context.across);
    return whole;
}

std::vector<Schedule> in_turn(ScheduleTrials schedules) {
    switch (schedules) {
        case ScheduleTrials::within:
            return {Schedule::within};
        case ScheduleTrials::across:
            return {Schedule::across};
        case ScheduleTrials::within_first:
            return {Schedule::within, Schedule::across};
        case ScheduleTrials::across_first:
            return {Schedule::across, Schedule::within};
    }
    return {};
}

/// The sizes of ddp, the best by the cost model in front.
std::vector<BucketTrial> ddp_trials(const TrialContext& context, Schedule schedule) {
    std::vector<BucketTrial> trials;
    for (const double size : ddp_sizes) {
        const auto limit = static_cast<std::size_t>(size * mebibyte);
        const BucketOptions options{BucketPolicy::ddp, context.timing.element_bytes, limit,
                                    std::min(context.first_bucket, limit)};
        trials.push_back(trial_of(context, schedule, fmt::format("ddp {:g} MiB", size),
                                  plan_buckets(context.parameters, context.layer_ends, options)));
    }
    std::ranges::stable_sort(trials, {}, &BucketTrial::predicted);
    return trials;
}

}  // namespace

std::vector<BucketTrial> plans_by_cost(const TrialContext& context, const SchedulePlans& plans,
                                       ScheduleTrials schedules) {
    std::vector<BucketTrial> trials;
    for (const Schedule schedule : in_turn(schedules))
        trials.push_back(
            trial_of(context, schedule, to_string(BucketPolicy::cost_model),
                     schedule == Schedule::across ? std::span(plans.across.buckets) : plans.within));
    return trials;
}

std::vector<BucketTrial> plans_to_try(const TrialContext& context, const SchedulePlans& plans,
                                      ScheduleTrials schedules) {
    std::vector<BucketTrial> trials = plans_by_cost(context, plans, schedules);
    const auto add = [&](const BucketTrial& one) {
        const bool known =
            std::ranges::any_of(trials, [&](const BucketTrial& other) { return other.sends_alike(one); });
        if (!known) trials.push_back(one);
        return !known;
    };
    const auto add_policy = [&](Schedule schedule, BucketPolicy policy) {
        add(trial_of(context, schedule, to_string(policy),
                     plan_buckets(context.parameters, context.layer_ends, {policy})));
    };
    const std::vector<Schedule> order = in_turn(schedules);
    const bool both = order.size() > 1;
    for (const Schedule schedule : order) {
        if (!both || schedule == Schedule::within) add_policy(schedule, BucketPolicy::single);
        add_policy(schedule, BucketPolicy::per_layer);
        std::size_t left = both ? 1 : 2;
        for (const BucketTrial& one : ddp_trials(context, schedule))
            if (left > 0 && add(one)) --left;
    }
    const auto cut = std::ranges::find_if(trials, &BucketTrial::in_pieces);
    if (cut != trials.end()) add(in_whole_transfers(context, *cut));
    return trials;
}

}  // namespace tutti
