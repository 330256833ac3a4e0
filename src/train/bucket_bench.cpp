#include "tutti/train/bucket_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>

#include "bucket_measurement.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/spread.hpp"
#include "tutti/base/suggest.hpp"
#include "tutti/base/units.hpp"

namespace tutti {
namespace {

std::vector<std::string> items_of(std::string_view text, const std::string& flag) {
    std::vector<std::string> items;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        items.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    if (std::ranges::find(items, std::string()) != items.end())
        throw UsageError(fmt::format("{} is '{}', which has an empty item", flag, text),
                         "separate items by single commas");
    return items;
}

}  // namespace

std::vector<BucketPolicy> parse_policies(std::string_view text, const std::string& flag) {
    std::vector<std::string> known;
    for (const auto& [name, policy] : bucket_policy_names)
        if (policy != BucketPolicy::automatic) known.push_back(name);
    std::vector<BucketPolicy> policies;
    for (const std::string& item : items_of(text, flag)) {
        if (std::ranges::find(known, item) == known.end()) {
            const std::string near = nearest(item, known);
            throw UsageError(fmt::format("{}: '{}' is not a bucket policy", flag, item),
                             near.empty() ? fmt::format("there are {}", fmt::join(known, ", "))
                                          : "did you mean " + near + "?");
        }
        const BucketPolicy policy =
            std::ranges::find(bucket_policy_names, item, &BucketPolicyName::name)->policy;
        if (std::ranges::find(policies, policy) == policies.end()) policies.push_back(policy);
    }
    return policies;
}

std::vector<double> parse_bucket_sizes(std::string_view text, const std::string& flag) {
    std::vector<double> sizes;
    for (const std::string& item : items_of(text, flag)) {
        double size = 0;
        const char* const begin = item.data() + std::min(item.find_first_not_of(' '), item.size());
        const char* const end = item.data() + item.size();
        const auto [rest, problem] = std::from_chars(begin, end, size);
        if (problem != std::errc() || rest != end || !std::isfinite(size) || size <= 0)
            throw UsageError(fmt::format("{}: '{}' is not a bucket size", flag, item),
                             "give numbers of MiB above 0, for example 0.25,1,25");
        if (std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
    }
    return sizes;
}

std::string PlanName::text() const {
    return (bucket_mb > 0 ? fmt::format("{} {:g} MB", to_string(policy), bucket_mb) : to_string(policy)) +
           (schedule.empty() ? "" : " " + schedule);
}

std::vector<BenchPlan> distinct_plans(const PlanRequest& request, std::span<const ParameterSlice> parameters,
                                      const std::vector<bool>& layer_ends, std::size_t element_bytes,
                                      const std::vector<Bucket>& by_cost) {
    std::vector<BenchPlan> plans;
    const auto add = [&](const PlanName& name, std::vector<Bucket> buckets) {
        const auto same = std::ranges::find(plans, buckets, &BenchPlan::buckets);
        if (same != plans.end())
            same->names.push_back(name);
        else
            plans.push_back({{name}, std::move(buckets)});
    };
    const auto bytes = [](double mb) { return static_cast<std::size_t>(mb * mebibyte); };
    for (const BucketPolicy policy : request.policies) {
        if (policy == BucketPolicy::cost_model) {
            add({policy, 0}, by_cost);
        } else if (policy == BucketPolicy::ddp) {
            for (const double mb : request.bucket_mb)
                add({policy, mb}, plan_buckets(parameters, layer_ends,
                                               {policy, element_bytes, bytes(mb),
                                                bytes(std::min(request.first_bucket_mb, mb))}));
        } else {
            add({policy, 0}, plan_buckets(parameters, layer_ends, {policy, element_bytes}));
        }
    }
    return plans;
}

std::vector<std::size_t> best_of_policies(std::span<const BenchPlan> plans,
                                          std::span<const double> predicted) {
    std::set<std::size_t> chosen;
    for (const BucketPolicy policy : {BucketPolicy::cost_model, BucketPolicy::per_layer, BucketPolicy::ddp}) {
        std::size_t best = plans.size();
        for (std::size_t p = 0; p < plans.size(); ++p)
            if (std::ranges::find(plans[p].names, policy, &PlanName::policy) != plans[p].names.end() &&
                (best == plans.size() || predicted[p] < predicted[best]))
                best = p;
        if (best < plans.size()) chosen.insert(best);
    }
    return {chosen.begin(), chosen.end()};
}

PlanSteps::PlanSteps(std::span<const BenchPlan> plans, const BenchRounds& rounds, const StepTimeline& empty,
                     const Run& run, const BeforeRound& before_round)
    : steps_(plans.size(), std::vector<StepTimeline>(rounds.steps, empty)) {
    const std::size_t turns = (rounds.steps + rounds.in_turn - 1) / rounds.in_turn;
    const std::size_t all = turns + (rounds.warmup > 0 ? 1 : 0);
    if (rounds.warmup > 0) {
        before_round(0, all);
        std::vector<StepTimeline> forgotten(rounds.warmup, empty);
        for (const BenchPlan& plan : plans) run(plan, forgotten);
    }
    for (std::size_t turn = 0; turn < turns; ++turn) {
        before_round(all - turns + turn, all);
        const std::size_t begin = turn * rounds.in_turn;
        const std::size_t count = std::min(rounds.in_turn, rounds.steps - begin);
        for (std::size_t i = 0; i < plans.size(); ++i) {
            const std::size_t plan = turn % 2 == 0 ? i : plans.size() - 1 - i;
            run(plans[plan], std::span(steps_[plan]).subspan(begin, count));
        }
    }
}

double StepMeasurement::predict(std::span<const Bucket> buckets, const BucketTiming& timing) const {
    return before + std::max(finish_time(buckets, timing), stretched(backward_end, buckets, timing)) + rest;
}

double StepMeasurement::attainable(std::span<const ParameterSlice> parameters,
                                   const BucketTiming& timing) const {
    const std::int64_t end = parameters.back().offset + parameters.back().count;
    double done = backward_end, all_before = 0;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
        all_before = std::max(all_before, timing.ready[p]);
        const auto left = static_cast<double>(end - parameters[p].offset);
        done = std::max(
            done, all_before + timing.cost.least_seconds(left * static_cast<double>(timing.element_bytes)));
    }
    return before + done + rest;
}

AcrossTiming StepMeasurement::across(const Graph& graph, double per_piece, const CostModel& cost) const {
    return with_costs(
        across(layers_of(graph, profile.layer_forward), graph.gradient_arena().count(), per_piece), cost,
        size_of(graph.compute()));
}

AcrossTiming StepMeasurement::across(std::vector<LayerForward> layers, std::int64_t elements,
                                     double per_piece) const {
    AcrossTiming timing;
    timing.ready = ready;
    timing.backward_end = backward_end;
    timing.between = std::max(rest - profile.optimizer, 0.0) + profile.data;
    timing.layers = std::move(layers);
    timing.loss =
        std::max(before - profile.data -
                     std::accumulate(profile.layer_forward.begin(), profile.layer_forward.end(), 0.0),
                 0.0);
    timing.update_per_element = profile.optimizer / static_cast<double>(elements);
    timing.per_piece = per_piece;
    return timing;
}

StepMeasurement StepMeasurement::scaled_to(double seconds) const {
    const double factor = seconds / compute();
    StepMeasurement scaled = *this;
    for (double* part :
         {&scaled.before, &scaled.backward_end, &scaled.rest, &scaled.profile.data,
          &scaled.profile.loss_forward, &scaled.profile.loss_backward, &scaled.profile.optimizer})
        *part *= factor;
    for (std::vector<double>* parts :
         {&scaled.ready, &scaled.profile.layer_forward, &scaled.profile.layer_backward})
        for (double& part : *parts) part *= factor;
    return scaled;
}

double agree_on_compute(std::span<const StepTimeline> steps, Communicator& communicator) {
    std::vector<double> seconds;
    for (const StepTimeline& step : steps) seconds.push_back(step.seconds - step.exposed_communication());
    communicator.all_reduce(view_of(std::span(seconds)), ReduceOp::max).wait();
    return median(std::move(seconds));
}

StepMeasurement agree_on_measurement(std::span<const StepTimeline> steps, Communicator& communicator) {
    std::vector<ReadyTimes> times;
    std::vector<double> before, rest;
    for (const StepTimeline& step : steps) {
        times.push_back(ready_times_of(step));
        // What is left of the step before lies in forward.
        const double waits = step.exposed_communication() - step.late_waits;
        before.push_back(step.micro_batches().back().backward.begin - step.late_waits - step.late_updates);
        rest.push_back(step.seconds - step.backward_end() - waits + step.late_updates);
    }
    const ReadyTimes agreed = agree_on_ready_times(communicator, times);
    StepProfile profile = profile_of(steps);
    std::vector<double> numbers{median(std::move(before)), median(std::move(rest)), profile.data,
                                profile.optimizer};
    numbers.insert(numbers.end(), profile.layer_forward.begin(), profile.layer_forward.end());
    communicator.all_reduce(view_of(std::span(numbers)), ReduceOp::max).wait();
    profile.data = numbers[2];
    profile.optimizer = numbers[3];
    std::copy(numbers.begin() + 4, numbers.end(), profile.layer_forward.begin());
    return {numbers[0], agreed.ready, agreed.backward_end, numbers[1], std::move(profile)};
}

}  // namespace tutti
