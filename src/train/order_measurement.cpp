#include "order_measurement.hpp"

#include <algorithm>

#include "tutti/base/spread.hpp"
#include "tutti/train/step_measurement.hpp"

namespace tutti {

bool OrderMeasurement::after_update(const UpdateReport& report) {
    constexpr std::size_t warm_up = 2, measured = 4;
    const bool full = report.samples == training_.global_batch();
    if (full) ++full_;
    // Of the step before this one all buckets are done.
    if (full && previous_full_ && full_ > warm_up + 1) steps_.push_back(recorder_.previous());
    previous_full_ = full;
    if (steps_.size() < measured) return false;
    choose();
    return true;
}

std::vector<double> OrderMeasurement::transfer_times() const {
    std::vector<double> seconds;
    for (std::size_t b = 0; b < training_.reducer.buckets().size(); ++b) {
        std::vector<double> values;
        for (const StepTimeline& step : steps_) {
            const double before = b == 0 ? 0 : step.buckets[b - 1].done;
            values.push_back(std::max(step.buckets[b].done - std::max(step.buckets[b].issued, before), 0.0));
        }
        seconds.push_back(median(std::move(values)));
    }
    return seconds;
}

bool keep_across_steps(TrainStep& training, const ScheduleForecast& forecast) {
    if (training.config.distributed.across_steps == AcrossSteps::yes) return true;
    const ScheduleForecast agreed = agree_on(forecast, training.job.control);
    if (agreed.across_pays()) return true;
    training.spread_across_steps(false);
    training.job.log.info("transfers end with their step: " + describe(agreed));
    return false;
}

bool has_an_order(TrainStep& training) {
    if (!training.spreads_across_steps()) return false;
    if (training.reducer.buckets().size() > 1) return true;
    if (training.config.distributed.across_steps == AcrossSteps::yes) return false;
    training.spread_across_steps(false);
    if (training.reducer.buckets().empty()) return false;
    training.job.log.info(
        "transfers end with their step: there is one bucket, and the next forward's first layer would wait "
        "for all of it");
    return false;
}

void OrderMeasurement::choose() {
    training_.complete();
    std::vector<double> seconds = transfer_times();
    training_.job.control.all_reduce(view_of(std::span(seconds)), ReduceOp::max).wait();
    // The transfers of these steps do not tell: of two that end between the same polls, one seems to take
    // none. (And they were under way together, so latency is in none of their times twice; and what they took
    // of the processor is in the computation, as they went out beside it.)
    const double start = piece_cost(training_.job.gradients,
                                    measure_small_all_reduce(training_.job.gradients, training_.job.control));
    const AcrossTiming timing =
        agree_on_measurement(steps_, training_.job.control).across(training_.graph, start, {});
    const auto& buckets = training_.reducer.buckets();
    const auto order = agree_on_numbers(issue_order(buckets, seconds, timing), training_.job.control);
    if (keep_across_steps(
            training_, {step_across(buckets, order, seconds, timing), step_within(buckets, seconds, timing)}))
        training_.replan(buckets, order);
}

}  // namespace tutti
