#include "tutti/train/ranking_metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <ranges>
#include <utility>

namespace tutti {
namespace {

double share(std::int64_t count, std::int64_t of) {
    return static_cast<double>(count) / static_cast<double>(of);
}

double threshold_of(const ThresholdCounts& at, ScoreScale scale) {
    return scale == ScoreScale::logit ? probability_of(at.score) : at.score;
}

bool has_nan(const std::vector<double>& scores) {
    return std::ranges::any_of(scores, [](double score) { return std::isnan(score); });
}

}  // namespace

RankedScores::RankedScores(std::vector<double> negative, std::vector<double> positive)
    : has_nan_(has_nan(negative) || has_nan(positive)),
      negative_(std::move(negative)),
      positive_(std::move(positive)) {
    if (has_nan_) return;  // has no place in an order
    std::ranges::sort(negative_, std::greater());
    std::ranges::sort(positive_, std::greater());
}

bool RankedScores::defined() const {
    return !has_nan_ && !negative_.empty() && !positive_.empty();
}

template <class Consumer>
void RankedScores::for_each_threshold(const Consumer& consume) const {
    assert(defined());
    std::size_t n = 0, p = 0;
    while (n < negative_.size() || p < positive_.size()) {
        double score = -std::numeric_limits<double>::infinity();
        if (n < negative_.size()) score = negative_[n];
        if (p < positive_.size()) score = std::max(score, positive_[p]);
        while (n < negative_.size() && negative_[n] == score) ++n;
        while (p < positive_.size() && positive_[p] == score) ++p;
        consume(ThresholdCounts{score, static_cast<std::int64_t>(p), static_cast<std::int64_t>(n)});
    }
}

double RankedScores::average_precision() const {
    if (!defined()) return std::numeric_limits<double>::quiet_NaN();
    double sum = 0;
    std::int64_t before = 0;
    for_each_threshold([&](const ThresholdCounts& now) {
        sum += static_cast<double>(now.true_positives - before) *
               share(now.true_positives, now.true_positives + now.false_positives);
        before = now.true_positives;
    });
    return sum / static_cast<double>(positive_.size());
}

double RankedScores::roc_auc() const {
    if (!defined()) return std::numeric_limits<double>::quiet_NaN();
    std::uint64_t twice = 0;  // 2U
    ThresholdCounts before;
    for_each_threshold([&](const ThresholdCounts& now) {
        twice += static_cast<std::uint64_t>(now.false_positives - before.false_positives) *
                 static_cast<std::uint64_t>(now.true_positives + before.true_positives);
        before = now;
    });
    return static_cast<double>(twice) /
           (2 * static_cast<double>(positive_.size()) * static_cast<double>(negative_.size()));
}

std::vector<ThresholdCounts> RankedScores::thresholds() const {
    std::vector<ThresholdCounts> counts;
    for_each_threshold([&](const ThresholdCounts& now) { counts.push_back(now); });
    return counts;
}

double probability_of(double score) {
    return 1 / (1 + std::exp(-score));
}

std::string precision_recall_csv(const RankedScores& scores, ScoreScale scale) {
    const std::vector<ThresholdCounts> counts = scores.thresholds();
    const std::int64_t positives = counts.back().true_positives;
    std::string text = "threshold,precision,recall\n";
    for (const ThresholdCounts& at : std::views::reverse(counts))
        fmt::format_to(std::back_inserter(text), "{},{},{}\n", threshold_of(at, scale),
                       share(at.true_positives, at.true_positives + at.false_positives),
                       share(at.true_positives, positives));
    return text + "inf,1,0\n";
}

std::string roc_csv(const RankedScores& scores, ScoreScale scale) {
    const std::vector<ThresholdCounts> counts = scores.thresholds();
    std::string text = "threshold,fpr,tpr\ninf,0,0\n";
    for (const ThresholdCounts& at : counts)
        fmt::format_to(std::back_inserter(text), "{},{},{}\n", threshold_of(at, scale),
                       share(at.false_positives, counts.back().false_positives),
                       share(at.true_positives, counts.back().true_positives));
    return text;
}

}  // namespace tutti
