#include "evaluation_sums.hpp"

#include <algorithm>
#include <numeric>

#include "tutti/comm/butterfly.hpp"

namespace tutti {

EvaluationSums::EvaluationSums(std::size_t classes, bool confusion)
    : classes_(classes), values_(header + 2 * classes + (confusion ? classes * classes : 0)) {}

void EvaluationSums::add(const LossSums& sums) {
    values_[weight] += sums.weight;
    values_[correct] += static_cast<double>(sums.correct);
}

void EvaluationSums::add(std::int64_t label, std::int64_t predicted, std::int64_t place, std::int64_t topk) {
    const auto row = static_cast<std::size_t>(label), column = static_cast<std::size_t>(predicted);
    values_[header + row] += 1;
    if (predicted == no_class) return;
    values_[in_topk] += place < topk ? 1 : 0;
    values_[hits() + row] += label == predicted ? 1 : 0;
    if (values_.size() > matrix()) values_[matrix() + row * classes_ + column] += 1;
}

void EvaluationSums::add_seconds(const std::array<SegmentMetrics::Seconds, 2>& seconds) {
    for (std::size_t label = 0; label < 2; ++label) {
        values_[header + label] += static_cast<double>(seconds[label].not_finite);
        for (std::size_t predicted = 0; predicted < 2; ++predicted) {
            const auto number = static_cast<double>(seconds[label].predicted[predicted]);
            values_[header + label] += number;
            values_[hits() + label] += label == predicted ? number : 0;
            values_[matrix() + label * classes_ + predicted] += number;
        }
    }
}

void EvaluationSums::add_place(double distance) {
    for (std::size_t i = 0; i < location_radii.size(); ++i)
        values_[first_radius + i] += distance <= location_radii[i] ? 1 : 0;
}

void EvaluationSums::add_kilometres(double km) {
    ++values_[on_earth];
    for (std::size_t i = 0; i < earth_radii.size(); ++i)
        values_[first_earth_radius + i] += km <= earth_radii[i] ? 1 : 0;
}

void EvaluationSums::add_segments(bool has_any, std::size_t predicted) {
    values_[with_segments] += has_any ? 1 : 0;
    values_[predicted_segments] += static_cast<double>(predicted);
}

void EvaluationSums::add_skipped(std::int64_t samples) {
    values_[skipped] += static_cast<double>(samples);
}

void EvaluationSums::add_not_finite() {
    ++values_[not_finite];
}

bool EvaluationSums::all_reduce(Communicator& communicator, const OfRank& mine, bool along_tree) {
    values_[loss] = mine.loss;
    std::ranges::copy(mine.metrics, values_.begin() + first_metric);
    values_[failed] = mine.failed ? 1 : 0;
    values_[stopped] = mine.stopped ? 1 : 0;
    if (along_tree)
        butterfly_sum(communicator, view_of(std::span(values_)));
    else
        communicator.all_reduce(view_of(std::span(values_)), ReduceOp::sum).wait();
    return values_[failed] > 0;
}

std::vector<std::int64_t> EvaluationSums::counts(std::size_t begin, std::size_t size) const {
    std::vector<std::int64_t> result(size);
    for (std::size_t i = 0; i < size; ++i) result[i] = count(begin + i);
    return result;
}

void EvaluationSums::put_metrics(const EvaluationJob& job, EvaluationResult& result) const {
    if (job.metrics.segments) {
        SegmentSums& sums = result.segments.emplace();
        std::copy_n(values_.begin() + first_metric, sums.precision.size(), sums.precision.begin());
        sums.with_segments = count(with_segments);
        sums.predicted = count(predicted_segments);
    } else if (job.metrics.location) {
        result.location = LocationSums{metric(location_sums::presence_loss),
                                       metric(location_sums::distance),
                                       metric(location_sums::heat_map_loss),
                                       {}};
        for (std::size_t i = 0; i < location_radii.size(); ++i)
            result.location->within[i] = count(first_radius + i);
    } else {
        result.errors = {metric(number_sums::absolute), metric(number_sums::squared),
                         metric(number_sums::distance)};
    }
}

void EvaluationSums::put_kilometres(const EvaluationJob& job, EvaluationResult& result) const {
    if (!job.geography) return;
    EarthSums& sums = result.earth.emplace();
    sums.km = metric(job.metrics.location ? std::size_t{location_sums::km} : std::size_t{number_sums::km});
    sums.samples = count(on_earth);
    for (std::size_t i = 0; i < earth_radii.size(); ++i) sums.within[i] = count(first_earth_radius + i);
}

EvaluationResult EvaluationSums::result(const EvaluationJob& job, std::int64_t topk) const {
    EvaluationResult result;
    result.loss = values_[loss];
    result.weight = values_[weight];
    result.correct = count(correct);
    result.unreadable = count(skipped);
    result.not_finite = count(not_finite);
    put_metrics(job, result);
    put_kilometres(job, result);
    result.stopped = values_[stopped] > 0;
    result.topk = topk;
    result.in_topk = count(in_topk);
    result.of_label = counts(header, classes_);
    result.hit_of_label = counts(hits(), classes_);
    result.confusion = counts(matrix(), values_.size() - matrix());
    // Not by the loss, which of a locator knows the logit alone, and takes a NaN for the greatest logit.
    if (classes_ > 0 && !job.metrics.segments)
        result.correct =
            std::accumulate(result.hit_of_label.begin(), result.hit_of_label.end(), std::int64_t{0});
    return result;
}

}  // namespace tutti
