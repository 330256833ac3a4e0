#include "tutti/train/evaluation_result.hpp"
#include "tutti/base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "tutti/base/ranking_metric_names.hpp"

namespace tutti {
namespace {

double part(std::int64_t count, double of) {
    return of > 0 ? static_cast<double>(count) / of : 0.0;
}

}  // namespace

double EvaluationResult::mean_loss() const {
    const double mean = weight > 0 ? loss / weight : 0.0;
    return std::isnan(mean) ? std::abs(mean) : mean;  // the sign of a nan says nothing
}
double EvaluationResult::accuracy() const {
    return part(correct, weight);
}
double EvaluationResult::topk_accuracy() const {
    return part(in_topk, weight);
}

double EvaluationResult::balanced_accuracy() const {
    double recalls = 0;
    std::int64_t present = 0;
    for (std::size_t label = 0; label < of_label.size(); ++label) {
        if (of_label[label] == 0) continue;
        recalls += part(hit_of_label[label], static_cast<double>(of_label[label]));
        ++present;
    }
    return present > 0 ? recalls / static_cast<double>(present) : 0.0;
}

std::optional<EvaluationResult::Detection> EvaluationResult::detection() const {
    const std::size_t classes = of_label.size();
    if (classes < 2 || confusion.empty()) return {};
    std::int64_t predicted = 0;
    for (std::size_t other = 0; other < classes; ++other) predicted += confusion[other * classes + 1];
    // Those whose outputs are not finite are in no column, and missed.
    const std::int64_t actual = of_label[1];
    const std::int64_t hits = confusion[classes + 1];
    return Detection{part(hits, static_cast<double>(actual)),
                     part(predicted - hits, static_cast<double>(predicted)),
                     part(2 * hits, static_cast<double>(predicted + actual))};
}

double EvaluationResult::mae() const {
    return weight > 0 ? errors.absolute / (weight * static_cast<double>(targets)) : 0.0;
}
double EvaluationResult::rmse() const {
    return weight > 0 ? std::sqrt(errors.squared / (weight * static_cast<double>(targets))) : 0.0;
}
double EvaluationResult::distance() const {
    if (location) return of_present(location->distance);
    return weight > 0 ? errors.distance / weight : 0.0;
}

double EvaluationResult::of_present(double sum) const {
    return of_label[1] > 0 ? sum / static_cast<double>(of_label[1])
                           : std::numeric_limits<double>::quiet_NaN();
}
double EvaluationResult::within(std::size_t radius) const {
    return of_present(static_cast<double>(location->within[radius]));
}
double EvaluationResult::km() const {
    return earth && earth->samples > 0 ? earth->km / static_cast<double>(earth->samples)
                                       : std::numeric_limits<double>::quiet_NaN();
}
double EvaluationResult::within_km(std::size_t radius) const {
    return earth && earth->samples > 0 ? part(earth->within[radius], static_cast<double>(earth->samples))
                                       : std::numeric_limits<double>::quiet_NaN();
}
double EvaluationResult::presence_loss() const {
    return weight > 0 ? location->presence_loss / weight : 0.0;
}
double EvaluationResult::heat_map_loss() const {
    return weight > 0 ? location->heat_map_loss / weight : 0.0;
}

double EvaluationResult::segment_precision(std::size_t i) const {
    if (!segments || segments->with_segments == 0) return std::numeric_limits<double>::quiet_NaN();
    return segments->precision[i] / static_cast<double>(segments->with_segments);
}
double EvaluationResult::atiou() const {
    double sum = 0;
    for (std::size_t i = 0; i < segment_ious.size(); ++i) sum += segment_precision(i);
    return sum / static_cast<double>(segment_ious.size());
}

double EvaluationResult::metric(const std::string& name) const {
    if (name == "val/loss") return mean_loss();
    if (name == "val/mae") return mae();
    if (name == "val/rmse") return rmse();
    if (name == "val/distance") return distance();
    if (name == "val/km") return km();
    if (name == "val/top5") return topk_accuracy();
    if (name == "val/atiou") return atiou();
    if (name == "val/balanced_accuracy") return balanced_accuracy();
    if (is_ranking_metric(name) && !scores) return std::numeric_limits<double>::quiet_NaN();
    if (name == "val/auprc") return scores->average_precision();
    if (name == "val/roc_auc") return scores->roc_auc();
    return accuracy();
}

std::vector<std::vector<std::int64_t>> confusion_rows(const EvaluationResult& result) {
    const std::size_t classes = result.of_label.size();
    std::vector<std::vector<std::int64_t>> rows;
    for (std::size_t begin = 0; begin < result.confusion.size(); begin += classes) {
        const auto row = std::span(result.confusion).subspan(begin, classes);
        rows.emplace_back(row.begin(), row.end());
    }
    return rows;
}

bool improves(const std::string& name, double value, double best, double min_delta) {
    const bool lower_is_better =
        name == "val/loss" || std::ranges::find(regression_metrics, name) != regression_metrics.end();
    return lower_is_better ? best - value > min_delta : value - best > min_delta;
}

std::string doubt_about_outputs(std::int64_t not_finite, std::int64_t samples) {
    if (not_finite == 0) return {};
    return fmt::format(
        "the outputs of {} of {} samples are not finite, which is never right: the weights have diverged, or "
        "the data are at fault; train with a lower optim.lr or with optim.clip_norm, or check the data",
        not_finite, samples);
}

std::string accuracy_text(const LossSums& sums) {
    return fmt::format("{:.4f} ({} of {:.0f})", part(sums.correct, sums.weight), sums.correct, sums.weight);
}

std::string score_text(const EvaluationResult& result) {
    const std::string km =
        result.earth && result.earth->samples > 0 ? fmt::format(", {:.1f} km", result.km()) : std::string();
    if (result.loss_only) return counted(std::llround(result.weight), "sample");
    if (result.location)
        return "accuracy " + accuracy_text(result) +
               (result.of_label[1] > 0 ? fmt::format(", distance {:.2f}{}", result.distance(), km)
                                       : std::string(", none is present"));
    if (result.segments)
        return result.segments->with_segments == 0
                   ? "no segments in " + counted(std::llround(result.weight), "sample")
                   : fmt::format("AtIoU {:.4f} ({} of {:.0f} samples have segments)", result.atiou(),
                                 result.segments->with_segments, result.weight);
    if (result.targets == 0) return "accuracy " + accuracy_text(result);
    const std::string distance = result.targets > 1
                                     ? fmt::format(", distance {}{}", format_number(result.distance()), km)
                                     : std::string();
    return fmt::format("rmse {}, mae {}{} ({})", format_number(result.rmse()), format_number(result.mae()),
                       distance, counted(std::llround(result.weight), "sample"));
}

}  // namespace tutti
