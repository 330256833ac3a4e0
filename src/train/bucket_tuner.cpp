#include "bucket_tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "order_measurement.hpp"
#include "tutti/base/units.hpp"
#include "tutti/train/schedule_choice.hpp"

namespace tutti {
namespace {

constexpr std::size_t warm_up_steps = 2, ready_steps = 4, rounds_at_once = 5, most_rounds = 15;
constexpr double mebibyte = 1048576.0;
constexpr double ddp_sizes[] = {0.5, 1, 2.5, 5, 10, 25, 50};  // MiB
constexpr std::size_t ddp_trials = 2;

std::vector<std::size_t> ends_of(std::span<const Bucket> plan) {
    std::vector<std::size_t> ends;
    for (const Bucket& bucket : plan) ends.push_back(bucket.last);
    return ends;
}

std::string milliseconds(double seconds) {
    return fmt::format("{:.3g} ms", seconds * 1e3);
}

}  // namespace

BucketTuner::BucketTuner(TrainStep& training, const StepRecorder& recorder)
    : training_(training), recorder_(recorder), across_(training.spreads_across_steps()) {}

std::size_t BucketTuner::current_trial() const {
    // Each round begins with another one: what befalls every n-th step then befalls all alike.
    const std::size_t trials = contenders_.size();
    return contenders_[(steps_ / trials + steps_ % trials) % trials];
}

void BucketTuner::replan(const BucketTrial& trial) {
    training_.replan(plan_from_ends(parameter_slices(training_.graph), trial.ends), trial.order);
}

void BucketTuner::before_update() {
    if (phase_ == Phase::ready_times && steps_ == 0) {
        training_.spread_across_steps(false);
        training_.replan(plan_buckets(parameter_slices(training_.graph), layer_ends(training_.graph),
                                      {BucketPolicy::single}));
    }
    if (phase_ == Phase::trials && in_turn_ == 0) replan(result_.trials[current_trial()]);
}

bool BucketTuner::after_update(const UpdateReport& report) {
    if (report.samples != training_.global_batch()) return false;
    if (phase_ == Phase::ready_times) measured_.push_back(recorder_.timeline());
    if (phase_ == Phase::trials) {
        const std::size_t turn = across_ ? 2 : 1;
        if (++in_turn_ < turn) return false;
        in_turn_ = 0;
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

AcrossTiming BucketTuner::across_timing() const {
    return measurement_.across(training_.graph, piece_cost_);
}

BucketTrial BucketTuner::trial(const std::string& name, const std::vector<Bucket>& plan) const {
    const BucketTiming timing{result_.ready, result_.cost, size_of(training_.graph.compute())};
    if (!across_) return {name, ends_of(plan), finish_time(plan, timing), 0};
    const AcrossTiming across = across_timing();
    const std::vector<double> seconds = transfer_seconds(plan, timing);
    const auto order = issue_order(plan, seconds, across);
    return {name, ends_of(plan), step_across(plan, order, seconds, across), 0, order};
}

BucketTrial BucketTuner::in_whole_transfers(const BucketTrial& cut) const {
    const BucketTiming timing{result_.ready, result_.cost, size_of(training_.graph.compute())};
    const AcrossTiming across = across_timing();
    const auto plan = plan_from_ends(parameter_slices(training_.graph), cut.ends);
    const std::vector<double> seconds = transfer_seconds(plan, timing);
    const auto order = whole_order(plan, seconds, across);
    return {cut.name + " in whole transfers", cut.ends, step_across(plan, order, seconds, across), 0, order};
}

void BucketTuner::plan_trials() {
    measurement_ = agree_on_measurement(measured_, training_.job.control);
    measured_.clear();
    result_.ready = measurement_.ready;
    result_.backward_end = measurement_.backward_end;
    result_.cost = measure_all_reduce(training_.job.gradients, training_.job.control, training_.arena_ops,
                                      training_.graph.gradient_arena());

    const auto slices = parameter_slices(training_.graph);
    const auto ends = layer_ends(training_.graph);
    const BucketTiming timing{result_.ready, result_.cost, size_of(training_.graph.compute())};
    std::vector<Bucket> by_cost;
    if (across_) {
        // The model may make a transfer of nothing cheaper than any is.
        piece_cost_ =
            piece_cost(training_.job.gradients,
                       std::max(result_.cost.seconds(0),
                                measure_small_all_reduce(training_.job.gradients, training_.job.control)));
        SchedulePlans plans = plan_schedules(slices, ends, timing, across_timing());
        training_.spread_across_steps(true);
        across_ = keep_across_steps(training_, plans.forecast);
        by_cost = std::move(across_ ? plans.across.buckets : plans.within);
    } else {
        by_cost = plan_by_cost(slices, ends, timing);
    }
    const auto add = [&](const BucketTrial& one) {
        const bool known = std::ranges::any_of(
            result_.trials, [&](const BucketTrial& other) { return other.sends_alike(one); });
        if (!known) result_.trials.push_back(one);
        return !known;
    };
    add(trial("cost_model", by_cost));
    if (training_.config.distributed.bucket_policy == BucketPolicy::automatic) {
        add(trial("single", plan_buckets(slices, ends, {BucketPolicy::single})));
        add(trial("per_layer", plan_buckets(slices, ends, {BucketPolicy::per_layer})));
        std::vector<BucketTrial> ddp;
        const auto first = static_cast<std::size_t>(training_.config.distributed.first_bucket_mb * mebibyte);
        for (const double size : ddp_sizes) {
            const auto limit = static_cast<std::size_t>(size * mebibyte);
            const BucketOptions options{BucketPolicy::ddp, timing.element_bytes, limit,
                                        std::min(first, limit)};
            ddp.push_back(trial(fmt::format("ddp {:g} MiB", size), plan_buckets(slices, ends, options)));
        }
        std::ranges::stable_sort(ddp, {}, &BucketTrial::predicted);
        std::size_t added = 0;
        for (const BucketTrial& one : ddp)
            if (added < ddp_trials && add(one)) ++added;
        // What the model does not know of pieces (polls, the processor's part) their measurement tells.
        const auto cut = std::ranges::find_if(result_.trials, &BucketTrial::in_pieces);
        if (cut != result_.trials.end()) add(in_whole_transfers(*cut));
    }
    result_.chosen = result_.trials.front();
    // Ranks on unlike processors could round a prediction differently: rank 0's list counts.
    const std::string text = broadcast_text(training_.job.control, to_json(result_), 0);
    result_ = bucket_profile_from_json(text, result_.key, slices.size());
    seconds_.assign(result_.trials.size(), {});
    contenders_.resize(result_.trials.size());
    std::iota(contenders_.begin(), contenders_.end(), std::size_t{0});
}

bool BucketTuner::end_rounds() {
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
    std::string text = "buckets: " + chosen.name + ", " + describe_buckets(buckets, element_bytes);
    if (chosen.step > 0) text += "; a step takes " + milliseconds(chosen.step);
    bool first = true;
    for (const BucketTrial& trial : profile.trials) {
        if (trial.sends_alike(chosen) || trial.step == 0) continue;
        text += (first ? ", with " : ", ") + trial.name + " " + milliseconds(trial.step);
        first = false;
    }
    const Bucket& last = buckets.back();
    const double all = static_cast<double>(last.offset + last.count) * static_cast<double>(element_bytes);
    text += "; backward takes " + milliseconds(profile.backward_end) + ", the all-reduce of all at once " +
            milliseconds(profile.cost.seconds(all)) +
            (chosen.order.empty() ? ", exposed by the model " +
                                        milliseconds(std::max(chosen.predicted - profile.backward_end, 0.0))
                                  : ", a step across steps by the model " + milliseconds(chosen.predicted));
    return text;
}

}  // namespace tutti
