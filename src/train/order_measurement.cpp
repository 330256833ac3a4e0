#include "order_measurement.hpp"

#include <algorithm>

#include "bucket_measurement.hpp"
#include "tutti/train/bucket_bench.hpp"

namespace tutti {

bool OrderMeasurement::after_update(const UpdateReport& report) {
    constexpr std::size_t warm_up = 2, measured = 4;
    full_ = report.samples == training_.global_batch() ? full_ + 1 : 0;
    // Of the step before this one all buckets are done.
    if (full_ > warm_up + 1) steps_.push_back(recorder_.previous());
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

void OrderMeasurement::choose() {
    training_.complete();
    std::vector<double> seconds = transfer_times();
    training_.job.control.all_reduce(view_of(std::span(seconds)), ReduceOp::max).wait();
    const AcrossTiming timing = agree_on_measurement(steps_, training_.job.control).across(training_.graph);
    const auto order = issue_order(training_.reducer.buckets(), seconds, timing);
    std::vector<std::int64_t> numbers(order.begin(), order.end());
    training_.job.control.broadcast(view_of(std::span(numbers)), 0).wait();
    training_.replan(training_.reducer.buckets(), {numbers.begin(), numbers.end()});
}

}  // namespace tutti
